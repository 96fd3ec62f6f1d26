# Manifests of several objects, and of kinds that are unknown: kubectl validates them by itself.
cat > list.yaml <<END
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {color: red}}
- {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None, ports: [{port: 80, targetPort: web}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
  spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]}
END
kubectl apply -f list.yaml

kubectl apply -f list.yaml

kubectl get cm/a svc/a pod/a -o name

kubectl get cm/a svc/a -o yaml > read.yaml; kubectl apply -f read.yaml

sed s/data:/date:/ list.yaml | kubectl apply -f -

printf 'apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: [1]}]\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {}}]\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Bogus, metadata: {name: b}}]\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: List\nitems: []\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: Bogus\nmetadata: {name: b}\n' | kubectl apply -f -

printf 'apiVersion: example.org/v1\nkind: Bogus\nmetadata: {name: b}\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: c}, data: {a: b}}]\n' | kubectl apply -f -

kubectl create -f list.yaml

kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: listed.lists.example.com}
spec:
  group: lists.example.com
  scope: Namespaced
  names: {plural: listed, singular: listed, kind: Listed}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer}
              note: {type: string, nullable: true}
              either: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
END

kubectl wait crd/listed.lists.example.com --for=condition=Established --timeout=20s; await 'kubectl get listed >/dev/null 2>&1'

cat > custom.yaml <<END
apiVersion: v1
kind: List
items:
- {apiVersion: lists.example.com/v1, kind: Listed, metadata: {name: a}, spec: {size: 1, note: null, either: 1, free: {a: [1]}}}
END
await 'kubectl get --raw /openapi/v2 | grep -q lists.example.com'; kubectl apply -f custom.yaml

sed 's/size: 1/other: 1/' custom.yaml | kubectl apply -f -

kubectl delete crd listed.lists.example.com
