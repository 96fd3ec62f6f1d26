{{- /* The name of the service account. */ -}}
{{- define "PROGRAM.account" -}}
PROGRAM{{ with .Values.instance }}.{{ . }}{{ end }}
{{- end }}

{{- /* The name of the Deployment and what belongs to it. */ -}}
{{- define "PROGRAM.name" -}}
{{- $name := include "PROGRAM.account" . | replace "." "--" -}}
{{- if gt (len $name) LONGEST }}{{ fail (printf "the name `%s` is longer than LONGEST characters: choose a shorter `instance`" $name) }}{{ end -}}
{{- $name }}
{{- end }}

{{- define "PROGRAM.labels" -}}
{{- $labels := dict "app.kubernetes.io/name" "PROGRAM" -}}
{{- with .Values.instance }}{{ $_ := set $labels "app.kubernetes.io/instance" . }}{{ end -}}
{{- toJson $labels -}}
{{- end }}

{{- define "PROGRAM.podLabels" -}}
{{- $labels := include "PROGRAM.labels" . | fromJson -}}
{{- toJson (set $labels "INSTALLATION" (include "PROGRAM.account" .)) -}}
{{- end }}

{{- /* A setting as the command line takes it; YAML reads `on` and `off` as booleans. */ -}}
{{- define "PROGRAM.setting" -}}
{{- $value := index (index . 0).Values (index . 1) -}}
{{- if kindIs "bool" $value }}{{ ternary "on" "off" $value -}}
{{- else if kindIs "slice" $value }}{{ join "," $value -}}
{{- else if not (kindIs "invalid" $value) }}{{ printf "%v" $value -}}
{{- else if eq (index . 1) "metricsAuth" }}token
{{- end -}}
{{- end }}

{{- /* What each of several replicas would do, and what to write instead; empty if several replicas are allowed. */ -}}
{{- define "PROGRAM.unelected" -}}
{{- get (fromJson UNELECTED) (include "PROGRAM.setting" (list . "leaderElection")) -}}
{{- end }}

{{- define "PROGRAM.replicas" -}}
{{- $unelected := include "PROGRAM.unelected" . -}}
{{- $replicas := ternary REPLICAS_ALONE REPLICAS_ELECTED (not (empty $unelected)) -}}
{{- if not (kindIs "invalid" .Values.replicas) }}{{ $replicas = int .Values.replicas }}{{ end -}}
{{- if and HAS_WEBHOOKS $unelected -}}
{{- fail (printf "webhooks need several replicas, and all of them would %s" $unelected) -}}
{{- else if and (gt $replicas 1) $unelected -}}
{{- fail (printf "several replicas would all %s, or `replicas: 1`" $unelected) -}}
{{- else if and HAS_SHARDS (gt $replicas MOST_REPLICAS) -}}
{{- fail (printf "%d replicas and those of a roll-out are more than the MEMBERS that share the shards of the controller `CONTROLLER`: write `shards(count = …, members = %d)` in its attribute, or set fewer `replicas`" $replicas (add $replicas SURGE)) -}}
{{- end -}}
{{- $replicas -}}
{{- end }}

{{- define "PROGRAM.strategy" -}}
{{- if include "PROGRAM.unelected" . }}RECREATE{{ else }}ROLLING{{ end -}}
{{- end }}

{{- /* The drain timeout in seconds, rounded up, and the time to end after it. */ -}}
{{- define "PROGRAM.grace" -}}
{{- $drain := include "PROGRAM.setting" (list . "drainTimeout") | default "20s" -}}
{{- $begin := toDate "2006-01-02" "2020-01-01" -}}
{{- $end := dateModify (printf "%s999ms999us999ns" $drain) $begin -}}
{{- max GRACE_LEAST (add GRACE_AFTER (sub (unixEpoch $end) (unixEpoch $begin))) -}}
{{- end }}

{{- /* Whether the metrics are served over HTTPS. */ -}}
{{- define "PROGRAM.tls" -}}
{{- if or .Values.metricsSecret .Values.metricsCertFile (include "PROGRAM.reviews" .) }}true{{ end }}
{{- end }}

{{- /* Whether the tokens of clients are reviewed. */ -}}
{{- define "PROGRAM.reviews" -}}
{{- if and (eq (include "PROGRAM.setting" (list . "metricsAuth")) "token") (include "PROGRAM.port" .) }}true{{ end }}
{{- end }}

{{- /* The port of an address: the root, the value, the address. */ -}}
{{- define "PROGRAM.portOf" -}}
{{- $listen := index . 2 -}}
{{- $port := regexFind "[0-9]+$" $listen -}}
{{- if or (hasPrefix "127." $listen) (hasPrefix "[::1]" $listen) (lt (int $port) 1024) (gt (int $port) 65535) -}}
{{- fail (printf "probes and metrics cannot be reached on %s: set `%s` to `[::]:8080`, or another port from 1024 up" $listen (index . 1)) -}}
{{- end -}}
{{- $port -}}
{{- end }}

{{- /* The port of the metrics; empty if they are off. */ -}}
{{- define "PROGRAM.port" -}}
{{- $listen := include "PROGRAM.setting" (list . "listen") | default ":8080" -}}
{{- if ne $listen "off" }}{{ include "PROGRAM.portOf" (list . "listen" $listen) }}{{ end -}}
{{- end }}

{{- define "PROGRAM.portName" -}}
{{- if include "PROGRAM.tls" . }}https{{ else }}http{{ end -}}
{{- end }}

{{- /* Whether probes are not on the port of the metrics. */ -}}
{{- define "PROGRAM.separate" -}}
{{- $auth := eq (include "PROGRAM.setting" (list . "metricsAuth")) "token" -}}
{{- if or (include "PROGRAM.setting" (list . "listenProbes")) $auth (include "PROGRAM.tls" .) }}true{{ end -}}
{{- end }}

{{- /* The port of probes, if they have one of their own. */ -}}
{{- define "PROGRAM.probePort" -}}
{{- $metrics := include "PROGRAM.port" . -}}
{{- $listen := include "PROGRAM.setting" (list . "listenProbes") -}}
{{- if and (not $listen) (include "PROGRAM.separate" .) $metrics }}{{ $listen = ":8081" }}{{ end -}}
{{- if and $listen (ne $listen "off") -}}
{{- $port := include "PROGRAM.portOf" (list . "listenProbes" $listen) -}}
{{- if eq $port $metrics }}{{ fail "metrics and probes cannot be on the same port: set `listenProbes` to another one" }}{{ end -}}
{{- $port -}}
{{- end -}}
{{- end }}

{{- /* The name of the port of probes; empty if they are off. */ -}}
{{- define "PROGRAM.probePortName" -}}
{{- if include "PROGRAM.separate" . }}{{ if include "PROGRAM.probePort" . }}probes{{ end -}}
{{- else if include "PROGRAM.port" . }}{{ include "PROGRAM.portName" . }}{{ end -}}
{{- end }}

{{- define "PROGRAM.containerPorts" -}}
{{- $ports := list -}}
{{- with include "PROGRAM.port" . }}{{ $ports = append $ports (dict "name" (include "PROGRAM.portName" $) "containerPort" (int .) "protocol" "TCP") }}{{ end -}}
{{- with include "PROGRAM.probePort" . }}{{ $ports = append $ports (dict "name" "probes" "containerPort" (int .) "protocol" "TCP") }}{{ end -}}
{{- if HAS_WEBHOOKS -}}
{{- $port := int (.Values.webhookPort | default WEBHOOK_PORT) -}}
{{- if and .Values.hostNetwork (eq $port WEBHOOK_PORT) -}}
{{- fail "in the network of a node, the kubelet uses port WEBHOOK_PORT: set `webhookPort` to another one, such as 9443" -}}
{{- end -}}
{{- if lt $port 1024 }}{{ fail (printf "a process that is not root cannot bind port %d: set `webhookPort` to another one from 1024 up" $port) }}{{ end -}}
{{- range $ports -}}
{{- if eq (int .containerPort) $port }}{{ fail (printf "metrics or probes use port %d: set `webhookPort` to another one" $port) }}{{ end -}}
{{- end -}}
{{- $ports = append $ports (dict "name" "webhooks" "containerPort" $port "protocol" "TCP") -}}
{{- end -}}
{{- toJson $ports -}}
{{- end }}

{{- /* What the NetworkPolicy opens: a kubelet may always connect to the pods of its node, and API servers have no pods to select. */ -}}
{{- define "PROGRAM.ingress" -}}
{{- $ingress := list -}}
{{- range include "PROGRAM.containerPorts" . | fromJsonArray -}}
{{- $rule := dict "ports" (list (dict "port" .name "protocol" "TCP")) -}}
{{- if and $.Values.networkPolicyFrom (not (has .name OPEN_PORTS)) }}{{ $_ := set $rule "from" $.Values.networkPolicyFrom }}{{ end -}}
{{- $ingress = append $ingress $rule -}}
{{- end -}}
{{- toJson $ingress -}}
{{- end }}

{{- define "PROGRAM.resources" -}}
{{- $resources := deepCopy (.Values.resources | default dict) -}}
{{- with .Values.ephemeralStorage }}{{ $_ := set $resources "limits" (merge (dict "ephemeral-storage" .) ($resources.limits | default dict)) }}{{ end -}}
{{- toJson $resources -}}
{{- end }}

{{- /* Each kind of affinity of the values replaces the default one. */ -}}
{{- define "PROGRAM.affinity" -}}
{{- $affinity := fromJson (replace "ACCOUNT" (include "PROGRAM.account" .) `AFFINITY`) -}}
{{- range $kind, $one := .Values.affinity | default dict }}{{ $_ := set $affinity $kind $one }}{{ end -}}
{{- toJson $affinity -}}
{{- end }}

{{- /* A constraint without a selector would count no pods: it counts those of this installation. */ -}}
{{- define "PROGRAM.spread" -}}
{{- $selector := dict "matchLabels" (dict "INSTALLATION" (include "PROGRAM.account" .)) -}}
{{- $spread := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $spread = append $spread (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $selector)) -}}
{{- end -}}
{{- toJson $spread -}}
{{- end }}

{{- /* The flag of a setting whose value comes from a Secret. */ -}}
{{- define "PROGRAM.flag" -}}
{{- get (fromJson `SETTING_FILES`) . | default . -}}
{{- end }}

{{- /* The volumes of Secrets; empty if there is none. */ -}}
{{- define "PROGRAM.volumes" -}}
{{- $volumes := list -}}
{{- with .Values.metricsSecret }}{{ $volumes = append $volumes (dict "name" "metrics-certificate" "secret" (dict "secretName" .)) }}{{ end -}}
{{- $sources := list -}}
{{- range $setting, $value := .Values.settings | default dict -}}
{{- if kindIs "map" $value -}}
{{- $path := include "PROGRAM.flag" $setting | trimSuffix "-file" -}}
{{- $sources = append $sources (dict "secret" (dict "name" $value.secretName "items" (list (dict "key" $value.key "path" $path)))) -}}
{{- end -}}
{{- end -}}
{{- with $sources }}{{ $volumes = append $volumes (dict "name" "settings" "projected" (dict "sources" .)) }}{{ end -}}
{{- with $volumes }}{{ toJson . }}{{ end -}}
{{- end }}

{{- define "PROGRAM.mounts" -}}
{{- $mounts := list -}}
{{- range include "PROGRAM.volumes" . | fromJsonArray -}}
{{- $mounts = append $mounts (fromJson (eq .name "settings" | ternary `SETTING_MOUNT` `CERTIFICATE_MOUNT`)) -}}
{{- end -}}
{{- toJson $mounts -}}
{{- end }}

{{- define "PROGRAM.servicePorts" -}}
{{- $name := include "PROGRAM.portName" . -}}
{{- toJson (list (dict "name" $name "port" (include "PROGRAM.port" . | int) "targetPort" $name "protocol" "TCP")) -}}
{{- end }}

{{- /* The endpoint of the ServiceMonitor. */ -}}
{{- define "PROGRAM.endpoint" -}}
{{- $endpoint := dict "port" (include "PROGRAM.portName" .) "path" "/metrics" -}}
{{- if include "PROGRAM.tls" . -}}
{{- $tls := dict "insecureSkipVerify" true -}}
{{- if or .Values.metricsSecret .Values.metricsCertFile -}}
{{- $tls = dict "serverName" (printf "%s.%s.svc" (include "PROGRAM.name" .) .Release.Namespace) -}}
{{- end -}}
{{- with .Values.metricsSecret }}{{ $_ := set $tls "ca" (dict "secret" (dict "name" . "key" "ca.crt")) }}{{ end -}}
{{- $_ := set (set $endpoint "scheme" "https") "tlsConfig" $tls -}}
{{- end -}}
{{- if include "PROGRAM.reviews" . }}{{ $_ := set $endpoint "bearerTokenFile" "TOKEN_FILE" }}{{ end -}}
{{- toJson $endpoint -}}
{{- end }}

{{- /* The settings as environment variables. */ -}}
{{- define "PROGRAM.variables" -}}
{{- $root := . -}}
{{- $variables := list -}}
{{- range $pair := list VARIABLES -}}
{{- $value := include "PROGRAM.setting" (list $root (first $pair)) -}}
{{- if $value }}{{ $variables = append $variables (dict "name" (last $pair) "value" (replace "$" "$$" $value)) }}{{ end -}}
{{- end -}}
{{- if .Values.metricsSecret -}}
{{- if or .Values.metricsCertFile .Values.metricsKeyFile -}}
{{- fail "`metricsSecret` sets the files of the certificate: remove `metricsCertFile` and `metricsKeyFile`" -}}
{{- end -}}
{{- $variables = concat $variables (list CERTIFICATE_VARIABLES) -}}
{{- else if ne (empty .Values.metricsCertFile) (empty .Values.metricsKeyFile) -}}
{{- fail "`metricsCertFile` and `metricsKeyFile` need each other: set both, or none of them" -}}
{{- end -}}
{{- $variables = concat $variables (.Values.env | default list) -}}
{{- if $variables }}{{ toJson $variables }}{{ else }}[]{{ end -}}
{{- end }}

{{- /* The arguments of `run`: the program's own settings. YAML reads words such as `on` and `no` as booleans. */ -}}
{{- define "PROGRAM.args" -}}
{{- $args := list "run" -}}
{{- range $setting, $value := .Values.settings | default dict -}}
{{- $flag := include "PROGRAM.flag" $setting -}}
{{- range $one := kindIs "slice" $value | ternary $value (list $value) -}}
{{- if kindIs "map" $one }}{{ $args = append $args (printf "--%s=%s" $flag (printf "SETTING_PATH" (trimSuffix "-file" $flag))) -}}
{{- else if kindIs "bool" $one -}}
{{- $word := dig $flag (toString $one) "" (fromJson `SETTING_WORDS`) -}}
{{- if $word }}{{ $args = append $args (printf "--%s=%s" $flag $word) -}}
{{- else if $one }}{{ $args = append $args (printf "--%s" $flag) }}{{ end -}}
{{- else if kindIs "float64" $one }}{{ $args = append $args (printf "--%s=%s" $flag (toJson $one)) -}}
{{- else if not (kindIs "invalid" $one) }}{{ $args = append $args (printf "--%s=%v" $flag $one) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- /* A container gets `$(NAME)` as it is written, and not the value of a variable. */ -}}
{{- toJson $args | replace "$" "$$" -}}
{{- end }}
