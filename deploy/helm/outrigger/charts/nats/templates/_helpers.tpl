{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "nats.labels" -}}
app.kubernetes.io/name: outrigger-nats
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What sidecars have in state.url. */}}
{{- define "nats.address" -}}
{{- range $n := until 3 }}{{ if $n }},{{ end }}nats://outrigger-nats-{{ $n }}.outrigger-nats.{{ $.Release.Namespace }}:4222{{ end }}
{{- end }}

{{/* The size is part of the configuration: JetStream uses half of the volume. */}}
{{- define "nats.configuration" -}}
{{- $size := .Values.storage | trimSuffix "Gi" | int -}}
{{- .Files.Get "files/nats.conf" | replace "max_file_store: 2GB" (printf "max_file_store: %dGB" (div $size 2)) -}}
{{- end }}
