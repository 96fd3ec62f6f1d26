# Commands with typed clients, which send protobuf.
kubectl create configmap a --from-literal=a=b --from-literal=c='d e'

kubectl create configmap a

printf 'x\ny\n' > file.txt; kubectl create secret generic s --from-file=file.txt --from-literal=p=q

kubectl create secret docker-registry r --docker-server=example.com --docker-username=u --docker-password=p

kubectl get secret s r -o jsonpath='{range .items[*]}{.type} {.data}{"\n"}{end}'

kubectl create namespace typed-other; kubectl create namespace typed-other

kubectl create namespace UPPER

kubectl create deployment web --image=nginx:1.27 --replicas=2 --port=80

kubectl create deployment web --image=nginx:1.27 --dry-run=server

kubectl create service clusterip web --tcp=80:8080 --clusterip=None

kubectl create service externalname outside --external-name=example.com

kubectl create role reader --verb=get,list,watch --resource=configmaps,deployments.apps --resource-name=a

kubectl create clusterrole typed-reader --verb=get --non-resource-url=/healthz

kubectl create rolebinding reader --role=reader --user=jane --serviceaccount=typed:robot

kubectl create clusterrolebinding typed-reader --clusterrole=typed-reader --group=g

kubectl create serviceaccount robot

kubectl create token robot --duration=1h | grep -c .

kubectl create token absent

kubectl create quota q --hard=pods=5,requests.cpu=1500m

kubectl create job once --image=busybox -- true

kubectl create cronjob often --image=busybox --schedule='* * * * *' -- true

kubectl create job from --from=cronjob/often

kubectl create ingress web --rule=example.com/=web:80,tls=t

kubectl create poddisruptionbudget web --selector=app=web --min-available=50%

kubectl create priorityclass typed-high --value=100 --description=d

for object in service/web role/reader rolebinding/reader cronjob/often ingress/web pdb/web; do kubectl get $object -o yaml; done

kubectl get deployment web -o yaml

kubectl auth whoami

kubectl auth whoami --as=jane --as-group=g -o yaml

kubectl auth can-i get configmaps

kubectl auth can-i get configmaps/a --as=jane

kubectl auth can-i create configmaps --as=jane

kubectl auth can-i get /healthz --as=jane --as-group=g

kubectl auth can-i --list --as=jane | grep -E 'configmaps|deployments|Resources'

kubectl auth reconcile -f - <<< '{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "made"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}'

kubectl delete priorityclass/typed-high clusterrole/typed-reader clusterrolebinding/typed-reader namespace/typed-other --wait=false
