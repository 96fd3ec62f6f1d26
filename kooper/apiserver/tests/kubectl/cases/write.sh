# Objects are created, applied, compared, edited and patched.
cat > map.yaml <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels:
    tier: front
data:
  color: red
  size: "10"
END
kubectl create -f map.yaml

kubectl create -f map.yaml

kubectl create -f map.yaml --dry-run=server -o name

kubectl create configmap b --from-literal=a=b --dry-run=client -o yaml

kubectl apply -f map.yaml

kubectl get cm a -o yaml

sed -i s/red/green/ map.yaml; kubectl diff -f map.yaml

kubectl apply -f map.yaml

kubectl apply -f map.yaml

kubectl diff -f map.yaml

sed -i /size/d map.yaml; kubectl apply -f map.yaml; kubectl get cm a -o jsonpath='{.data}{"\n"}'

kubectl apply view-last-applied cm/a

sed -i s/green/blue/ map.yaml; kubectl apply -f map.yaml --server-side

sed -i s/blue/black/ map.yaml; kubectl apply -f map.yaml --server-side --field-manager=other

kubectl apply -f map.yaml --server-side --field-manager=other --force-conflicts

kubectl get cm a -o yaml --show-managed-fields

kubectl diff --server-side --field-manager=third -f map.yaml

kubectl apply -f map.yaml --server-side --dry-run=server

printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n' | kubectl apply -f -

printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: absent}\n' | kubectl apply -f -

KUBE_EDITOR='sed -i s/black/white/' kubectl edit configmap a

kubectl get cm a -o jsonpath='{.data.color}{"\n"}'

KUBE_EDITOR='sed -i s/nothing/nothing/' kubectl edit configmap a

KUBE_EDITOR='sed -i s/white/grey/' kubectl edit configmap a -o json

kubectl patch configmap a -p '{"data": {"color": "merged"}}' --type=merge

kubectl patch configmap a -p '{"data": {"color": null, "shape": "round"}}' --type=strategic

kubectl patch configmap a -p '[{"op": "replace", "path": "/data/shape", "value": "square"}]' --type=json

kubectl patch configmap a -p '[{"op": "test", "path": "/data/shape", "value": "other"}]' --type=json

kubectl patch configmap a -p '{"data": {"shape": "square"}}'

kubectl get cm a -o jsonpath='{.data}{"\n"}'

kubectl replace -f map.yaml

kubectl get cm a -o jsonpath='{.data}{"\n"}'

kubectl replace --force -f map.yaml

kubectl create -f map.yaml --save-config --dry-run=server

kubectl create configmap gen --from-literal=a=b -o name

kubectl get configmap gen -o yaml | kubectl replace -f -
