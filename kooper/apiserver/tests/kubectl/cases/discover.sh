# What is served, and of which fields it is made; the prose of the real server's schemas is left out.
kubectl api-versions

kubectl api-resources

kubectl api-resources --namespaced=false -o name

kubectl api-resources --api-group=apps -o wide

kubectl api-resources --verbs=create,patch --sort-by=name -o name

kubectl api-resources --categories=all -o name

kubectl version -o json | grep -c Version

kubectl cluster-info

fields() { kubectl explain "$@" | grep -P '^(GROUP|KIND|VERSION|FIELD|FIELDS)|^ +[A-Za-z]+\t'; }; fields pods; fields pods.spec.containers; fields deployments.spec.strategy; fields configmaps.data; fields cm.metadata.ownerReferences

fields() { kubectl explain "$@" | grep -P '^(GROUP|KIND|VERSION|FIELD|FIELDS)|^ +[A-Za-z]+\t'; }; fields ingress.spec; fields --api-version=autoscaling/v1 hpa; fields services.spec.ports; fields crd.spec.names; fields role

kubectl explain pods.spec.nothing

kubectl explain things

kubectl explain pods.spec --recursive | grep -cP '^ +[A-Za-z]+\t'

kubectl explain deployments --recursive | grep -P '^ +[A-Za-z]+\t' | sort | uniq -c | sort -n | tail -5
