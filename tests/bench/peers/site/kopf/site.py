# Pods that run an image: `kopf run site.py --all-namespaces`.

import kopf
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import NotFoundError

SITES = ("example.com", "v1", "sites")


@kopf.on.startup()
def connect(settings, **_):
    global deployments, sites
    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()
    api = dynamic.DynamicClient(client.ApiClient())
    deployments = api.resources.get(api_version="apps/v1", kind="Deployment")
    sites = api.resources.get(api_version="example.com/v1", kind="Site")
    settings.persistence.finalizer = "example.com/site"


# Runs a Deployment for each Site.
@kopf.on.resume(*SITES)
@kopf.on.create(*SITES)
@kopf.on.update(*SITES, field="spec")
def site(body, spec, name, namespace, **_):
    labels = {"app": "site", "instance": name}
    pod = {"containers": [{"name": "main", "image": spec["image"]}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    kopf.adopt(deployment, owner=body)
    deployments.server_side_apply(
        body=deployment, name=name, namespace=namespace, field_manager="site", force_conflicts=True
    )


# Reports the available pods, and creates a deleted Deployment again.
@kopf.on.event("apps", "v1", "deployments", labels={"app": "site"})
def observe(event, name, namespace, status, logger, **_):
    try:
        owner = sites.get(name=name, namespace=namespace).to_dict()
    except NotFoundError:
        return
    if event["type"] == "DELETED":
        if "deletionTimestamp" not in owner["metadata"]:
            site(body=owner, spec=owner["spec"], name=name, namespace=namespace)
        return
    patch = {"status": {"available": status.get("availableReplicas")}}
    sites.status.patch(body=patch, name=name, namespace=namespace, content_type="application/merge-patch+json")


# Cleans up outside the cluster. After an error, the object is kept and the cleanup is retried.
@kopf.on.delete(*SITES)
def clean_up(body, **_):
    kopf.info(body, reason="CleanedUp", message="nothing is left outside the cluster")
