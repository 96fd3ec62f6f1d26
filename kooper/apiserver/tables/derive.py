#!/usr/bin/env python3
"""Derives the tables of the built-in kinds from a real server.

Usage: tables/derive.py KUBECONFIG

KUBECONFIG is what tests/control-plane/start prints. Writes src/kinds/builtin.txt
from discovery, src/kinds/schemas.txt from OpenAPI v3 without descriptions (one
definition a line, its name and its JSON), and src/bootstrap.jsonl: the roles,
bindings and priority classes that a new cluster has, one a line.
"""

import json
import pathlib
import re
import ssl
import sys
import urllib.request

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "src" / "kinds"

kubeconfig = pathlib.Path(sys.argv[1]).read_text()
server = re.search(r"server: (\S+)", kubeconfig).group(1)
token = re.search(r"token: (\S+)", kubeconfig).group(1)
# The server is one that was started for this.
context = ssl._create_unverified_context()


def get(path, accept="application/json"):
    request = urllib.request.Request(server + path, headers={"Authorization": f"Bearer {token}", "Accept": accept})
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer)


def words(values):
    return ",".join(values) or "-"


def kind_of(resource):
    kind = resource["responseKind"]
    prefix = f"{kind['group']}/{kind['version']}/" if kind["version"] else ""
    return prefix + kind["kind"]


def kinds():
    lines = [
        "# The built-in kinds, as the discovery of kube-apiserver 1.36 lists them.",
        "# GROUP/VERSION, then for each resource: plural singular Kind scope verbs short-names categories storage-hash;",
        "# indented below it its subresources: name [group/version/]Kind verbs. `-` stands for none.",
    ]
    for root in ("/api", "/apis"):
        for group in get(root, AGGREGATED)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                group_version = f"{name}/{version['version']}" if name else version["version"]
                legacy = get(f"{root}/{group_version}")["resources"]
                hashes = {one["name"]: one.get("storageVersionHash") for one in legacy}
                lines += ["", group_version]
                for one in version["resources"]:
                    columns = [
                        one["resource"],
                        one["singularResource"],
                        kind_of(one),
                        "N" if one["scope"] == "Namespaced" else "C",
                        words(one["verbs"]),
                        words(one.get("shortNames", [])),
                        words(one.get("categories", [])),
                        hashes[one["resource"]] or "-",
                    ]
                    lines.append("  " + " ".join(columns))
                    for sub in one.get("subresources", []):
                        lines.append(f"    {sub['subresource']} {kind_of(sub)} {words(sub['verbs'])}")
    return lines


def without_descriptions(schema, names=False):
    """A schema without prose; `names` where the keys are names of fields."""
    if isinstance(schema, dict):
        return {
            key: without_descriptions(value, key == "properties" and not names)
            for key, value in schema.items()
            if names or key != "description"
        }
    if isinstance(schema, list):
        return [without_descriptions(value) for value in schema]
    return schema


def schemas():
    definitions = {}
    for path in get("/openapi/v3")["paths"]:
        if path.startswith(("api/", "apis/")) and path.count("/") >= 1:
            document = get(f"/openapi/v3/{path}")
            for name, schema in document.get("components", {}).get("schemas", {}).items():
                schema = without_descriptions(schema)
                # Options that every group names as its own.
                groups = schema.get("x-kubernetes-group-version-kind", [])
                if len(groups) > 3:
                    del schema["x-kubernetes-group-version-kind"]
                definitions[name] = schema
    compact = {"separators": (",", ":"), "sort_keys": True}
    return [f"{name} {json.dumps(definitions[name], **compact)}" for name in sorted(definitions)]


BOOTSTRAP = [
    ("scheduling.k8s.io", ["priorityclasses"]),
    ("rbac.authorization.k8s.io", ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]),
]
BOOTSTRAPPED = {"kubernetes.io/bootstrapping": "rbac-defaults"}
UPDATED = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def bootstrap():
    lines = []
    for group, resources in BOOTSTRAP:
        for resource in resources:
            found = get(f"/apis/{group}/v1/{resource}")
            for one in found["items"]:
                # What all roles and bindings have is added by the reader.
                metadata = {key: one["metadata"][key] for key in ("name", "namespace") if key in one["metadata"]}
                labels = {k: v for k, v in one["metadata"].get("labels", {}).items() if k not in BOOTSTRAPPED}
                if labels:
                    metadata["labels"] = labels
                one = {"resource": f"{group}/{resource}", **one, "metadata": metadata}
                lines.append(json.dumps(one, separators=(",", ":")))
    return lines


(FOLDER / "builtin.txt").write_text("\n".join(kinds()) + "\n")
(FOLDER / "schemas.txt").write_text("\n".join(schemas()) + "\n")
(FOLDER.parent / "bootstrap.jsonl").write_text("\n".join(bootstrap()) + "\n")
