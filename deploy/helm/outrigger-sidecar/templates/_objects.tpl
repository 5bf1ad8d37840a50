{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
outrigger-sidecar.objects are the objects beside a Deployment, as its values say:

  {{ include "outrigger-sidecar.objects" (dict "root" $ "name" "shop" "selector" (dict "app" "shop")) }}

name is that of the Deployment, selector what its pods are selected by. labels, if given, go to each object, and values overrides
some of the chart's values, as in outrigger-sidecar.pod.
*/}}
{{- define "outrigger-sidecar.objects" -}}
{{- $v := include "outrigger-sidecar.values" . | fromYaml -}}
{{- if not .selector -}}
  {{- fail "outrigger-sidecar.objects: selector is missing; give the matchLabels of the Deployment" -}}
{{- end -}}
{{- $config := include "outrigger-sidecar.config" $v -}}
{{- $wanted := dict "service" $v.service.enabled "network-policy" (or $v.networkPolicy.enabled (eq $v.auth "none")) "disruption-budget" $v.podDisruptionBudget.enabled "pod-monitor" $v.podMonitor.enabled "http-route" $v.httpRoute.enabled "grpc-route" $v.grpcRoute.enabled -}}
{{- if $config }}
---
{{- $o := dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" dict "data" (dict "sidecar.yaml" $config) }}
{{ include "outrigger-sidecar.named" (dict "object" $o "name" (include "outrigger-sidecar.configName" (dict "name" .name "config" $config)) "of" .) }}
{{- end }}
{{- range $kind := list "service" "network-policy" "disruption-budget" "pod-monitor" "http-route" "grpc-route" }}
{{- if get $wanted $kind }}
{{- $o := include (printf "outrigger-sidecar.object.%s" $kind) (dict "v" $v) | fromYaml }}
{{- if eq $kind "service" }}
  {{- $_ := set $o.spec "selector" $.selector }}
{{- else if eq $kind "network-policy" }}
  {{- $_ := set $o.spec.podSelector "matchLabels" $.selector }}
  {{- $_ := set (first (first $o.spec.ingress).ports) "port" $v.listenPort }}
  {{- $_ := set (first (last $o.spec.ingress).ports) "port" $v.healthPort }}
  {{- $_ := set (first (last $o.spec.ingress).from).namespaceSelector.matchLabels "kubernetes.io/metadata.name" $v.networkPolicy.monitoringNamespace }}
{{- else if eq $kind "disruption-budget" }}
  {{- $_ := set $o.spec.selector "matchLabels" $.selector }}
{{- else if eq $kind "pod-monitor" }}
  {{- $_ := set $o.spec.selector "matchLabels" $.selector }}
  {{- $_ := set (first $o.spec.podMetricsEndpoints) "interval" $v.podMonitor.interval }}
{{- else }}
  {{- $route := eq $kind "http-route" | ternary $v.httpRoute $v.grpcRoute }}
  {{- $_ := set $o.spec "parentRefs" (list (dict "name" $route.gateway)) }}
  {{- $_ := unset $o.spec "hostnames" }}
  {{- with $route.hostnames }}{{ $_ := set $o.spec "hostnames" . }}{{ end }}
  {{- $_ := set (first (first $o.spec.rules).backendRefs) "name" $.name }}
{{- end }}
---
{{ include "outrigger-sidecar.named" (dict "object" $o "name" $.name "of" $) }}
{{- end }}
{{- end }}
{{- end }}

{{/* outrigger-sidecar.named is an object with its name, namespace and labels. */}}
{{- define "outrigger-sidecar.named" -}}
{{- $_ := set .object.metadata "name" .name -}}
{{- $_ := set .object.metadata "namespace" .of.root.Release.Namespace -}}
{{- with .of.labels -}}{{- $_ := set $.object.metadata "labels" . -}}{{- end -}}
{{- toYaml .object -}}
{{- end }}

{{/* The Service is where clients call. Others of the Deployment stay as they are. */}}
{{- define "outrigger-sidecar.object.service" -}}
apiVersion: v1
kind: Service
metadata: {}
spec:
  {{- if .v.stateKeySecret }}
  # The streams of legacy MCP sessions are at one replica.
  sessionAffinity: ClientIP
  {{- end }}
  ports:
    # The target is a number because not every controller finds the named ports of init containers.
    - name: mcp
      port: 8080
      targetPort: {{ .v.listenPort }}
      appProtocol: http
    {{- if .v.grpcRoute.enabled }}
    # A Gateway learns from the port that the target speaks HTTP/2.
    - name: grpc
      port: 8081
      targetPort: {{ .v.listenPort }}
      appProtocol: kubernetes.io/h2c
    {{- end }}
{{- end }}
