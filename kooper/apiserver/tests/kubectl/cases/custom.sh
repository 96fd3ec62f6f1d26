# A kind of its own, from its definition to its objects.
kubectl apply -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop, shortNames: [sh], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [replicas]
            properties:
              replicas: {type: integer, minimum: 0}
              color: {type: string, default: red, enum: [red, green]}
              ports: {type: array, items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name]}
          status:
            type: object
            properties: {phase: {type: string}, replicas: {type: integer}}
END

kubectl wait crd/shops.example.com --for=condition=Established --timeout=20s; await 'kubectl get shops >/dev/null 2>&1'

kubectl api-resources --api-group=example.com

fields() { kubectl explain "$@" | grep -P '^(GROUP|KIND|VERSION|FIELD|FIELDS)|^ +[A-Za-z]+\t'; }; await 'kubectl explain shops >/dev/null 2>&1'; fields shops; fields shops.spec; fields shops.spec.ports; fields shops.metadata.labels

cat > shop.yaml <<END
apiVersion: example.com/v1
kind: Shop
metadata: {name: a}
spec: {replicas: 2, ports: [{name: web, port: 80}]}
END
kubectl apply -f shop.yaml

kubectl get shops

kubectl get sh a -o yaml

kubectl get shop a -o wide

kubectl scale shop a --replicas=3

kubectl patch shop a --type=merge -p '{"spec": {"color": "blue"}}'

kubectl patch shop a --type=strategic -p '{"spec": {"color": "green"}}'

kubectl patch shop a --type=merge --subresource=status -p '{"status": {"phase": "Open"}}'

kubectl get shop a --subresource=status -o jsonpath='{.status.phase}{"\n"}'

kubectl describe shop a | grep -v 'Resource Version'

kubectl get all -o name | grep shop

kubectl create -f shop.yaml

kubectl delete shop a

kubectl delete crd shops.example.com

kubectl get shops
