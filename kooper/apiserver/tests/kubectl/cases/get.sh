# The forms of `get`, and `describe`.
kubectl create configmap a --from-literal=color=red --from-literal=size=10

kubectl create secret generic s --from-literal=password=hunter2

kubectl create service clusterip web --tcp=80:8080 --clusterip=None

kubectl get configmap a

kubectl get configmaps

kubectl get cm a -o wide

kubectl get cm a --show-labels

kubectl get cm a -o json

kubectl get cm a -o yaml

kubectl get cm a -o yaml --show-managed-fields

kubectl get cm a -o name

kubectl get cm a -o jsonpath='{.data.color}{"\n"}'

kubectl get cm -o jsonpath='{range .items[*]}{.metadata.name}{"="}{.data.size}{"\n"}{end}'

kubectl get cm a -o custom-columns=NAME:.metadata.name,COLOR:.data.color,NONE:.data.none

kubectl get cm a -o go-template='{{.data.color}}{{"\n"}}'

kubectl get cm a --no-headers

kubectl get cm,secrets

kubectl get cm/a secret/s

kubectl get cm -l none=none

kubectl get cm --field-selector metadata.name=a

kubectl get cm --field-selector data.color=red

kubectl get cm --sort-by=.metadata.name -o name

kubectl get cm --sort-by=.data.size

kubectl get cm --chunk-size=1 -o name

kubectl get --raw /version | grep -c gitVersion

kubectl get cm absent

kubectl get cm absent --ignore-not-found

kubectl get things

kubectl get namespaces get -o name

kubectl get ns get

kubectl get cm -A --field-selector metadata.name=a

kubectl get secret s

kubectl get secret s -o yaml

kubectl get secret s -o jsonpath='{.data.password}' | base64 -d

kubectl get service web

kubectl get service web -o wide

kubectl describe configmap a

kubectl describe secret s

kubectl describe namespace get | grep -v "^ *$" | head -4

kubectl describe configmap absent
