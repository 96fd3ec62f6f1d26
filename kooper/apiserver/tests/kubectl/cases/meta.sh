# Labels and annotations.
kubectl create configmap a

kubectl label configmap a tier=front

kubectl label configmap a tier=front

kubectl label configmap a tier=back

kubectl label configmap a tier=back --overwrite

kubectl label configmap a tier-

kubectl label configmap a tier-

kubectl label configmap a 'bad key=1'

kubectl label configmap --all every=one

kubectl label configmap a every=two --resource-version=1 --overwrite

kubectl label --list configmap a

kubectl annotate configmap a note='a longer text, with: signs'

kubectl annotate configmap a note=other

kubectl annotate configmap a note=other --overwrite

kubectl annotate configmap a note-

kubectl get configmap a -o jsonpath='{.metadata.labels}{.metadata.annotations}{"\n"}'

kubectl get configmaps -l every=one -o name

kubectl get configmaps -L every
