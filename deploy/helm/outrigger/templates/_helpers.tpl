{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Labels of every object. Selectors have app.kubernetes.io/name only, as in deploy/k8s. */}}
{{- define "outrigger.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "outrigger.injectorLabels" -}}
app.kubernetes.io/name: outrigger-injector
{{ include "outrigger.labels" . }}
{{- end }}

{{/* An image: (list $ "name" "complete reference or empty"). */}}
{{- define "outrigger.image" -}}
{{- $root := index . 0 -}}
{{- index . 2 | default (printf "%s/%s:%s" $root.Values.image.registry (index . 1) ($root.Values.image.tag | default $root.Chart.AppVersion)) -}}
{{- end }}
