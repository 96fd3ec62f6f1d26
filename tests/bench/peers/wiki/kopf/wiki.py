# A wiki with its database: `kopf run wiki.py --all-namespaces`.
# `crd.yaml` and `role.yaml` are to be applied before.

import dataclasses
import datetime
import secrets
import typing

import kopf
from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import DynamicApiError

WIKIS = ("example.com", "v1", "wikis")


# Its slot has to wait.
class Waits(Exception):
    pass


# Its slot cannot recover by itself.
class Failed(Exception):
    pass


def part(wiki, name):
    return f"{wiki['metadata']['name']}-{name}"


def labels(wiki, name):
    return {"wiki": wiki["metadata"]["name"], "part": name}


def pod(wiki, name, image, env):
    containers = [{"name": name, "image": image, "envFrom": [env]}]
    return {"metadata": {"labels": labels(wiki, name)}, "spec": {"containers": containers}}


def config_map(wiki):
    return {"metadata": {"name": part(wiki, "config")}, "data": {"title": wiki["spec"]["title"]}}


def password(wiki):
    return {"metadata": {"name": part(wiki, "password")}, "stringData": {"password": secrets.token_hex(16)}}


def database(wiki, secret):
    return {
        "metadata": {"name": part(wiki, "database")},
        "spec": {
            "serviceName": part(wiki, "database"),
            "selector": {"matchLabels": labels(wiki, "database")},
            "template": pod(wiki, "database", "postgres:17", {"secretRef": {"name": secret["metadata"]["name"]}}),
        },
    }


# A Job for each version.
def migration(wiki, config):
    template = pod(wiki, "migration", "example.com/wiki", {"configMapRef": {"name": config["metadata"]["name"]}})
    template["spec"]["restartPolicy"] = "Never"
    name = part(wiki, f"migration-{wiki['spec']['version']}")
    return {"metadata": {"name": name}, "spec": {"template": template}}


def service(wiki):
    spec = {"selector": labels(wiki, "web"), "ports": [{"port": 80}]}
    return {"metadata": {"name": wiki["metadata"]["name"]}, "spec": spec}


# None, and pruned, without a host.
def front(wiki, service):
    host = wiki["spec"].get("host")
    if host is None:
        return None
    backend = {"service": {"name": service["metadata"]["name"], "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return {
        "metadata": {"name": wiki["metadata"]["name"]},
        "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
    }


# By its owner reference: another client may remove labels.
def is_owned(child, wiki):
    owners = child["metadata"].get("ownerReferences", [])
    return any(owner["uid"] == wiki["metadata"]["uid"] for owner in owners)


def exists(child):
    pass


def is_complete(job):
    for condition in job.get("status", {}).get("conditions", []):
        if condition["status"] == "True" and condition["type"] == "Failed":
            raise Failed(condition.get("message", "it has failed"))
        if condition["status"] == "True" and condition["type"] == "Complete":
            return
    raise Waits("it is not complete")


def is_ready(stateful_set):
    status, wanted = stateful_set.get("status", {}), stateful_set["spec"]["replicas"]
    if status.get("observedGeneration", 0) < stateful_set["metadata"]["generation"]:
        raise Waits("the change is not observed")
    if status.get("readyReplicas", 0) != wanted or status.get("replicas", 0) != wanted:
        raise Waits(f"{status.get('readyReplicas', 0)} of {wanted} are ready")
    if status.get("currentRevision") != status.get("updateRevision"):
        raise Waits("it is being updated")


@dataclasses.dataclass
class Slot:
    api_version: str
    kind: str
    build: typing.Callable
    inputs: tuple = ()
    after: tuple = ()
    once: bool = False
    check: typing.Callable = exists

    def resource(self):
        return api.resources.get(api_version=self.api_version, kind=self.kind)

    # The children that exist, from the API server. Each slot has another kind.
    def existing(self, wiki):
        found = self.resource().get(namespace=wiki["metadata"]["namespace"])
        children = [child.to_dict() for child in found.items]
        return [child for child in children if is_owned(child, wiki)]

    def apply(self, wiki, child, existing):
        child = {"apiVersion": self.api_version, "kind": self.kind, **child}
        kopf.adjust_namespace(child, wiki["metadata"]["namespace"])
        kopf.append_owner_reference(child, wiki)
        if child["metadata"]["name"] not in (one["metadata"]["name"] for one in existing):
            # A creation never takes over the object of somebody else.
            return self.resource().create(body=child, field_manager="wiki").to_dict()
        return (
            self.resource()
            .server_side_apply(
                body=child,
                name=child["metadata"]["name"],
                namespace=child["metadata"]["namespace"],
                field_manager="wiki",
                force_conflicts=True,
            )
            .to_dict()
        )

    def delete(self, child):
        if "deletionTimestamp" not in child["metadata"]:
            preconditions = {"uid": child["metadata"]["uid"]}
            self.resource().delete(
                name=child["metadata"]["name"],
                namespace=child["metadata"]["namespace"],
                body={"propagationPolicy": "Foreground", "preconditions": preconditions},
            )


# In the order in which they are applied.
SLOTS = {
    "config": Slot("v1", "ConfigMap", config_map),
    "password": Slot("v1", "Secret", password, once=True),
    "database": Slot("apps/v1", "StatefulSet", database, inputs=("password",), check=is_ready),
    "migration": Slot("batch/v1", "Job", migration, ("config",), ("database",), once=True, check=is_complete),
    "service": Slot("v1", "Service", service, after=("migration",)),
    "front": Slot("networking.k8s.io/v1", "Ingress", front, inputs=("service",)),
}
# In the order in which they are deleted.
WAVES = [("front",), ("service",), ("migration",), ("database",), ("config", "password")]


@kopf.on.startup()
def connect(settings, **_):
    global api
    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()
    api = dynamic.DynamicClient(client.ApiClient())
    settings.persistence.finalizer = "example.com/wiki"


# Brings one slot to its state; returns its child, if it has one.
def reconcile_slot(wiki, name, children, unready):
    slot = SLOTS[name]
    existing = slot.existing(wiki)
    for needed in slot.inputs + slot.after:
        if (needed in unready and not existing) or (needed in slot.inputs and children.get(needed) is None):
            raise Waits(f"waits for {needed}")
    wanted = slot.build(wiki, *(children[needed] for needed in slot.inputs))
    child = None
    if wanted is not None:
        same = [one for one in existing if one["metadata"]["name"] == wanted["metadata"]["name"]]
        child = same[0] if same and slot.once else slot.apply(wiki, wanted, existing)
        children[name] = child
        slot.check(child)
    # The old one is pruned when the new one is ready.
    for old in existing:
        if child is None or old["metadata"]["name"] != child["metadata"]["name"]:
            slot.delete(old)


@kopf.timer(*WIKIS, interval=5)
def reconcile(body, spec, status, patch, logger, **_):
    children, unready, failed, stalled = {}, {}, {}, {}
    for name in SLOTS:
        try:
            reconcile_slot(body, name, children, unready)
        except Waits as why:
            unready[name] = str(why)
        except Failed as why:
            unready[name] = stalled[name] = str(why)
        except (ApiException, DynamicApiError) as error:
            logger.error("%s: %s", name, error)
            unready[name] = failed[name] = error.summary() if isinstance(error, DynamicApiError) else error.reason
    if stalled:
        wanted = [("Stalled", "True", "ChildFailed", stalled), ("Ready", "False", "ChildFailed", stalled)]
    elif failed:
        wanted = [("Ready", "False", "SlotFailed", failed)]
    elif unready:
        wanted = [("Reconciling", "True", "ChildNotReady", unready), ("Ready", "False", "ChildNotReady", unready)]
    else:
        wanted = [("Ready", "True", "AsDeclared", {"all": "children are ready"})]
    url = f"http://{spec['host']}" if children.get("front") else None
    report(body, status, patch, wanted, url)


# Writes the status if it has changed.
def report(body, status, patch, wanted, url):
    generation, now = body["metadata"]["generation"], datetime.datetime.now(datetime.timezone.utc)
    before = {condition["type"]: condition for condition in status.get("conditions", [])}
    conditions = []
    for kind, value, reason, slots in wanted:
        slot, why = next(iter(slots.items()))
        last = before.get(kind, {})
        since = last["lastTransitionTime"] if last.get("status") == value else now.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": f"{slot}: {why}",
                "observedGeneration": generation,
                "lastTransitionTime": since,
            }
        )
    for field, value in {"conditions": conditions, "url": url, "observedGeneration": generation}.items():
        if status.get(field) != value:
            patch.status[field] = value


@kopf.on.delete(*WIKIS)
def delete(body, status, patch, **_):
    for wave in WAVES:
        left = [(SLOTS[name], child) for name in wave for child in SLOTS[name].existing(body)]
        for slot, child in left:
            slot.delete(child)
        if left:
            why = f"waits until {left[0][0].kind} {left[0][1]['metadata']['name']} is gone"
            slots = {wave[0]: why}
            wanted = [("Reconciling", "True", "Deleting", slots), ("Ready", "False", "Deleting", slots)]
            report(body, status, patch, wanted, None)
            raise kopf.TemporaryError(why, delay=2)
