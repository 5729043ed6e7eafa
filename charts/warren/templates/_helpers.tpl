{{- define "warren.name" -}}
{{- if contains "warren" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-warren" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "warren.selector" -}}
app.kubernetes.io/name: warren
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "warren.labels" -}}
{{ include "warren.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "warren.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "warren.servicePort" -}}
{{ .Values.service.port | default (ternary 443 80 (ne .Values.tls.existingSecret "")) }}
{{- end }}

{{- /* How long Warren goes on serving at most while its pod ends. The last two commands of a drain may take 20 s each. */ -}}
{{- define "warren.stopSeconds" -}}
{{ add (int .Values.stopDelaySeconds) (ternary (add (int .Values.drainOnStop.seconds) 40) 0 .Values.drainOnStop.enabled) }}
{{- end }}

{{- /* What the JSON schema of the values cannot say. */ -}}
{{- define "warren.check" -}}
{{- if eq (int .Values.port) (int .Values.peerPort) }}
{{- fail (printf "port and peerPort are both %d. Warren listens on both on the same machine: choose two ports." (int .Values.port)) }}
{{- end }}
{{- range $one := .Values.env }}
{{- if hasKey $.Values.settings $one.name }}
{{- fail (printf "%s is in settings and in env: remove one of them." $one.name) }}
{{- end }}
{{- end }}
{{- if and .Values.drainOnStop.enabled (not .Values.objectStore.bucket) }}
{{- fail "drainOnStop moves sandboxes through an object store: set objectStore.bucket, or drainOnStop.enabled=false." }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.machines) }}
{{- fail "networkPolicy.machines is empty: name the address ranges of Warren's machines, or they cannot reach one another." }}
{{- end }}
{{- end }}
