# Watches and waits.
kubectl create configmap a --from-literal=n=1

kubectl get configmaps --field-selector metadata.name=a --watch > rows & trap "kill $!" EXIT
await 'grep -qs "^a " rows'; kubectl patch configmap a -p '{"data": {"m": "2"}}'; await 'grep -qsE "^a +2" rows'; cat rows

kubectl get configmaps -l watched --watch-only --output-watch-events --no-headers > rows & trap "kill $!" EXIT
await 'kubectl get --raw /healthz >/dev/null'; until grep -qs DELETED rows; do kubectl create configmap b >/dev/null; kubectl label configmap b watched=yes >/dev/null; kubectl delete configmap b >/dev/null; done; head -1 rows | awk '{print $1, $2}'

kubectl wait configmap/a --for=jsonpath='{.data.n}'=1 --timeout=20s

kubectl wait configmap/a --for=jsonpath='{.data.n}'=2 --timeout=1s

(await 'kubectl get configmap late >/dev/null 2>&1'; kubectl patch configmap late -p '{"data": {"done": "yes"}}' >/dev/null) & kubectl create configmap late; kubectl wait configmap/late --for=jsonpath='{.data.done}'=yes --timeout=20s; wait

kubectl create deployment web --image=nginx; kubectl patch deployment web --subresource=status -p '{"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Because", "message": "all is well"}]}}'

kubectl wait deployment/web --for=condition=Available --timeout=20s

kubectl wait deployment/web --for=condition=Progressing --timeout=1s

kubectl delete deployment web --wait=false; kubectl wait --for=delete deployment/web --timeout=20s
