{{- /* A service account with its roles: `own` are further rules in its own namespace, `cluster` for the cluster, `reviews` is whether it may need to review tokens, and `deletesLeases` whether it may delete the Leases. */ -}}
{{- define "PROGRAM.roles" -}}
{{- $root := .root -}}
{{- $own := $root.Release.Namespace -}}
{{- $rules := include "PROGRAM.rules" $root | fromJson -}}
{{- if and .reviews (include "PROGRAM.reviews" $root) (kindIs "invalid" $root.Values.metricsAuth) (not $rules.cluster) (or $rules.watched $rules.leases $rules.own $rules.others) -}}
{{- fail "metrics for users of the cluster need a ClusterRole, to create TokenReviews, and everything else of this installation has Roles alone: set `metricsAuth: none` for Roles alone, or `metricsAuth: token`" -}}
{{- end -}}
{{- if .deletesLeases -}}
{{- range $some := append (append (values $rules.others) ($rules.leases | default list)) ($rules.own | default list) -}}
{{- range $rule := $some -}}
{{- if and (has "leases" $rule.resources) (has "create" $rule.verbs) }}{{ $_ := set $rule "verbs" (append $rule.verbs "delete") }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .reviews (include "PROGRAM.reviews" $root) }}{{ $_ := set $rules "cluster" (concat ($rules.cluster | default list) (fromJsonArray `REVIEWS`)) }}{{ end -}}
{{- with .cluster }}{{ $_ := set $rules "cluster" (concat ($rules.cluster | default list) .) }}{{ end -}}
{{- $roles := dict -}}
{{- range $namespace, $some := $rules.others }}{{ $_ := set $roles $namespace $some }}{{ end -}}
{{- range $namespace := $root.Values.namespaces | default list | uniq -}}
{{- with $rules.watched }}{{ $_ := set $roles $namespace (concat (index $roles $namespace | default list) .) }}{{ end -}}
{{- end -}}
{{- with $rules.leases -}}
{{- $namespace := $root.Values.leaseNamespace | default $own -}}
{{- $_ := set $roles $namespace (concat (index $roles $namespace | default list) . | uniq) -}}
{{- end -}}
{{- with $rules.own }}{{ $_ := set $roles $own (concat (index $roles $own | default list) . | uniq) }}{{ end -}}
{{- with .own }}{{ $_ := set $roles $own (concat (index $roles $own | default list) .) }}{{ end -}}
{{- $metadata := dict "labels" (include "PROGRAM.labels" $root | fromJson) -}}
{{- with .annotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
{{- $group := "rbac.authorization.k8s.io" -}}
{{- $subject := dict "kind" "ServiceAccount" "name" .account "namespace" $own -}}
{{- $account := merge (dict "name" .account "namespace" $own) $metadata -}}
{{- with $root.Values.serviceAccountAnnotations }}{{ $_ := set $account "annotations" (merge (dict) ($account.annotations | default dict) .) }}{{ end -}}
{{- $documents := list (dict "apiVersion" "v1" "kind" "ServiceAccount" "metadata" $account) -}}
{{- with $rules.cluster -}}
{{- $name := printf "%s:%s" $own $.account -}}
{{- $ref := dict "apiGroup" $group "kind" "ClusterRole" "name" $name -}}
{{- $documents = append $documents (dict "apiVersion" (printf "%s/v1" $group) "kind" "ClusterRole" "metadata" (merge (dict "name" $name) $metadata) "rules" .) -}}
{{- $documents = append $documents (dict "apiVersion" (printf "%s/v1" $group) "kind" "ClusterRoleBinding" "metadata" (merge (dict "name" $name) $metadata) "roleRef" $ref "subjects" (list $subject)) -}}
{{- end -}}
{{- range $namespace, $some := $roles -}}
{{- $name := ternary $.account (printf "%s:%s" $own $.account) (eq $namespace $own) -}}
{{- $ref := dict "apiGroup" $group "kind" "Role" "name" $name -}}
{{- $place := merge (dict "name" $name "namespace" $namespace) $metadata -}}
{{- $documents = append $documents (dict "apiVersion" (printf "%s/v1" $group) "kind" "Role" "metadata" $place "rules" $some) -}}
{{- $documents = append $documents (dict "apiVersion" (printf "%s/v1" $group) "kind" "RoleBinding" "metadata" $place "roleRef" $ref "subjects" (list $subject)) -}}
{{- end -}}
{{- range $documents }}
---
{{ toYaml . }}
{{- end }}
{{- end }}
