# Who may do what.
kubectl get configmaps --as jane

kubectl create role reader --verb=get,list,watch --resource=configmaps

kubectl create rolebinding reader --role=reader --user=jane --serviceaccount=identity:robot

kubectl describe role reader

kubectl describe rolebinding reader

kubectl get configmaps --as jane -o name | grep -v root-ca

kubectl get configmaps -n default --as jane

kubectl get configmaps --token=wrong

kubectl get configmaps --server=$(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}') --certificate-authority=/dev/null 2>&1 | grep -c .
