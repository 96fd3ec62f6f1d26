# Deletions and what becomes of dependents.
kubectl create configmap owner

cat > dependent.sh <<'END'
uid=$(kubectl get configmap owner -o jsonpath='{.metadata.uid}')
for name in "$@"; do
  kubectl apply -f - <<YAML
apiVersion: v1
kind: ConfigMap
metadata:
  name: $name
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: $uid, blockOwnerDeletion: true}]
YAML
done
END
bash dependent.sh one two

kubectl delete configmap owner --cascade=background; await '! kubectl get configmap one two >/dev/null 2>&1'; kubectl get configmaps -o name | grep -v root-ca

kubectl create configmap owner; bash dependent.sh one

kubectl delete configmap owner --cascade=foreground; kubectl get configmaps -o name | grep -v root-ca

kubectl create configmap owner; bash dependent.sh one

kubectl delete configmap owner --cascade=orphan; kubectl get configmaps -o name | grep -v root-ca

kubectl get configmap one -o jsonpath='{.metadata.ownerReferences}'

kubectl delete configmap one --dry-run=server

kubectl delete configmap one --dry-run=client

kubectl delete configmap one --now

kubectl delete configmap one

kubectl delete configmap one --ignore-not-found

kubectl create configmap held; kubectl patch configmap held -p '{"metadata": {"finalizers": ["example.com/hold"]}}'

kubectl delete configmap held --wait=false

kubectl get configmap held -o jsonpath='{.metadata.finalizers}{"\n"}'

kubectl delete configmap held --timeout=1s

kubectl patch configmap held -p '{"metadata": {"finalizers": null}}'

kubectl wait --for=delete configmap/held --timeout=20s

kubectl create configmap a; kubectl create configmap b; kubectl label configmaps a b go=now; kubectl delete configmaps -l go=now

kubectl run pod --image=busybox; kubectl delete pod pod --grace-period=0 --force

kubectl create namespace delete-other; kubectl create configmap a -n delete-other; kubectl delete namespace delete-other

kubectl get namespace delete-other

kubectl delete namespace default
