# Deployments and pods: nothing runs, and everything can be asked and changed.
kubectl create deployment web --image=nginx:1.27 --replicas=2 --port=80

kubectl get deployments

kubectl get deployment web -o wide

kubectl scale deployment web --replicas=5

kubectl scale deployment web --replicas=5 --current-replicas=4

kubectl scale deployment absent --replicas=1

kubectl get deployment web -o jsonpath='{.spec.replicas} {.metadata.generation}{"\n"}'

kubectl set image deployment/web nginx=nginx:1.28

kubectl set image deployment/web other=nginx:1.28

kubectl set env deployment/web COLOR=red

kubectl set env deployment/web --list

kubectl set resources deployment/web --limits=cpu=200m,memory=64Mi

kubectl set serviceaccount deployment/web robot

kubectl get deployment web -o yaml

kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}'

kubectl get deployment web -o jsonpath='{range .spec.template.spec.containers[*]}{.name}={.image}{"\n"}{end}'

kubectl rollout pause deployment/web

kubectl rollout resume deployment/web

kubectl rollout restart deployment/web | cat

kubectl rollout status deployment/web --timeout=1s

kubectl rollout history deployment/web

kubectl rollout undo deployment/web

kubectl autoscale deployment web --min=1 --max=4 --cpu=50%

kubectl get hpa web -o yaml

kubectl expose deployment web --port=80 --type=ClusterIP --cluster-ip=None

kubectl get service web -o yaml

kubectl run pod --image=busybox --restart=Never --labels=app=pod -- sleep 1000

kubectl get pod pod

kubectl get pod pod -o wide

kubectl get pod pod -o yaml

kubectl label pod pod tier=front

kubectl create job once --image=busybox -- true

kubectl get job once

kubectl get all -o name

kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "workloads"}}'

kubectl cordon workloads; kubectl uncordon workloads

kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bound"}, "spec": {"nodeName": "workloads", "containers": [{"name": "c", "image": "busybox"}]}}'

kubectl drain workloads --dry-run=client --force

kubectl drain workloads --dry-run=server --force

kubectl drain workloads

kubectl drain workloads --force --grace-period=0 --timeout=20s

kubectl get pod bound

kubectl delete node workloads

kubectl delete deployment,hpa,service web
