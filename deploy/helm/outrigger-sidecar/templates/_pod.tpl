{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/*
outrigger-sidecar.pod is a pod template with the sidecar in it:

  template: {{- include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.pod") | nindent 4 }}

root is the context of the chart, name that of the Deployment, and pod the name of a template that gives metadata and spec of the
pod. values overrides some of the chart's values, for a chart with several Deployments.
*/}}
{{- define "outrigger-sidecar.pod" -}}
{{- $v := include "outrigger-sidecar.values" . | fromYaml -}}
{{- $pod := include .pod .root | fromYaml -}}
{{- if or (hasKey $pod "Error") (not $pod.spec) -}}
  {{- fail (printf "outrigger-sidecar.pod: the template %s must give metadata and spec of a pod: %s" .pod ($pod.Error | default "spec is missing")) -}}
{{- end -}}
{{- $spec := $pod.spec -}}
{{- range concat ($spec.initContainers | default list) ($spec.containers | default list) -}}
  {{- if eq .name "sidecar" -}}
    {{- fail (printf "outrigger-sidecar.pod: a container of %s is named sidecar; rename it" $.pod) -}}
  {{- end -}}
{{- end -}}
{{- $patch := dict -}}
{{- include "outrigger-sidecar.patched" (dict "to" $patch "v" $v "name" .name "spec" $spec) -}}
{{- $_ := set $pod "metadata" ($pod.metadata | default dict) -}}
{{- $_ := set $pod.metadata "labels" (merge (dict) $patch.labels ($pod.metadata.labels | default dict)) -}}
{{- if $patch.annotations -}}
  {{- $_ := set $pod.metadata "annotations" (merge (dict) ($pod.metadata.annotations | default dict) $patch.annotations) -}}
{{- end -}}
{{- $_ := set $spec "terminationGracePeriodSeconds" (max (int64 ($spec.terminationGracePeriodSeconds | default 0)) (int64 $patch.grace)) -}}
{{- $_ := set $spec "initContainers" (prepend ($spec.initContainers | default list) $patch.container) -}}
{{- range $mine := $patch.volumes -}}
  {{- range $spec.volumes | default list -}}
    {{- if eq .name $mine.name -}}
      {{- fail (printf "outrigger-sidecar.pod: a volume of %s is named %s, which is the sidecar's; rename it" $.pod .name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- with concat $patch.volumes ($spec.volumes | default list) -}}
  {{- $_ := set $spec "volumes" . -}}
{{- end -}}
{{- if and $v.appSleepSeconds (semverCompare ">=1.30-0" .root.Capabilities.KubeVersion.Version) -}}
  {{- range $spec.containers -}}
    {{- $lifecycle := .lifecycle | default dict -}}
    {{- if not $lifecycle.preStop -}}
      {{- $_ := set . "lifecycle" (set $lifecycle "preStop" (dict "sleep" (dict "seconds" $v.appSleepSeconds))) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toYaml $pod -}}
{{- end }}

{{/* outrigger-sidecar.values are the chart's values with those of one Deployment, in YAML. */}}
{{- define "outrigger-sidecar.values" -}}
{{- range list "root" "name" -}}
  {{- if not (hasKey $ .) -}}
    {{- fail (printf "outrigger-sidecar: %s is missing in the arguments; give (dict \"root\" $ \"name\" NAME ...)" .) -}}
  {{- end -}}
{{- end -}}
{{- $all := index .root.Values "outrigger-sidecar" -}}
{{- $v := mergeOverwrite (deepCopy $all) (.values | default dict) -}}
{{- range $name, $_ := $v -}}
  {{- if not (or (hasKey $all $name) (eq $name "global")) -}}
    {{- fail (printf "outrigger-sidecar.%s is unknown; known are %s" $name (keys $all | sortAlpha | join ", ")) -}}
  {{- end -}}
{{- end -}}
{{- include "outrigger-sidecar.check" $v -}}
{{- toYaml $v -}}
{{- end }}

{{/* outrigger-sidecar.check refuses values that do not fit each other. The schema looks at each of them. */}}
{{- define "outrigger-sidecar.check" -}}
{{- if and (eq .auth "config") (not .config) (not .configMap) -}}
  {{- fail "outrigger-sidecar.auth is \"config\", which needs a configuration file; set outrigger-sidecar.config or outrigger-sidecar.configMap" -}}
{{- else if and .config .configMap -}}
  {{- fail "outrigger-sidecar.config and outrigger-sidecar.configMap are both set; remove one of them" -}}
{{- else if and (eq .identity "token") (not .identityAudience) -}}
  {{- fail "outrigger-sidecar.identity is \"token\", which needs an audience; set outrigger-sidecar.identityAudience" -}}
{{- else if and (ne .identity "token") .identityAudience -}}
  {{- fail "outrigger-sidecar.identityAudience is of no use without outrigger-sidecar.identity: token; remove one of them" -}}
{{- else if and .nats.address (not .stateKeySecret) -}}
  {{- fail "outrigger-sidecar.nats.address needs a sealing key; set outrigger-sidecar.stateKeySecret to a Secret with the key state.key" -}}
{{- else if and .nats.address .configMap -}}
  {{- fail "outrigger-sidecar.nats.address has no effect with outrigger-sidecar.configMap; write state.url into that file, or use outrigger-sidecar.config" -}}
{{- else if and .unixSocket.enabled (ne (toString .port) "") -}}
  {{- fail "outrigger-sidecar.port is of no use with outrigger-sidecar.unixSocket.enabled; remove one of them" -}}
{{- end -}}
{{- $ports := list (int .listenPort) (int .adminPort) (int .healthPort) -}}
{{- if ne (len (uniq $ports)) 3 -}}
  {{- fail (printf "outrigger-sidecar.listenPort, adminPort and healthPort are %d, %d and %d; choose three different ports" (int .listenPort) (int .adminPort) (int .healthPort)) -}}
{{- end -}}
{{- end }}

{{/*
outrigger-sidecar.patched fills the dict "to" with what the sidecar adds: container, volumes, labels, annotations, grace. It applies
the patches of deploy/k8s/components in their order, and then the values.
*/}}
{{- define "outrigger-sidecar.patched" -}}
{{- $to := .to -}}
{{- $v := .v -}}
{{- $t := (include "outrigger-sidecar.patch.sidecar" $ | fromYaml).spec.template -}}
{{- $c := first $t.spec.initContainers -}}
{{- $_ := set $to "container" $c -}}
{{- $_ := set $to "volumes" $t.spec.volumes -}}
{{- $_ := set $to "labels" $t.metadata.labels -}}
{{- $_ := set $to "annotations" dict -}}
{{- $_ := set $to "grace" $t.spec.terminationGracePeriodSeconds -}}
{{- $config := include "outrigger-sidecar.config" $v -}}
{{- $patches := dict "unix-socket" $v.unixSocket.enabled "configuration" (or $config $v.configMap) "descriptors" $v.descriptorsConfigMap "records" $v.records.enabled "replicas" $v.stateKeySecret "shared-state" $v.nats.address "telemetry" $v.telemetry.enabled "no-auth" (ne $v.auth "tokens") -}}
{{- $backend := include "outrigger-sidecar.backend" . -}}
{{- range $name := list "unix-socket" "configuration" "descriptors" "records" "replicas" "shared-state" "telemetry" "no-auth" -}}
  {{- if get $patches $name -}}
    {{- include "outrigger-sidecar.apply" (dict "to" $to "patch" $name) -}}
  {{- end -}}
{{- end -}}
{{- $_ := set $c "image" $v.image -}}
{{- $_ := set $c "resources" $v.resources -}}
{{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_BACKEND" "value" $backend) -}}
{{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_LISTEN" "value" (printf ":%d" (int $v.listenPort))) -}}
{{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_ADMIN" "value" (printf "127.0.0.1:%d" (int $v.adminPort))) -}}
{{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_HEALTH" "value" (printf ":%d" (int $v.healthPort))) -}}
{{- range $c.ports -}}
  {{- $_ := set . "containerPort" (eq .name "mcp" | ternary $v.listenPort $v.healthPort) -}}
{{- end -}}
{{- $command := list -}}
{{- range $c.lifecycle.preStop.exec.command -}}
  {{- $command = append $command (hasPrefix "127.0.0.1:" . | ternary (printf "127.0.0.1:%d" (int $v.adminPort)) .) -}}
{{- end -}}
{{- $_ := set $c.lifecycle.preStop.exec "command" $command -}}
{{- if eq $v.auth "config" -}}
  {{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_INSECURE_NO_AUTH" "value" "") -}}
{{- end -}}
{{- if $v.configMap -}}
  {{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_CONFIG" "value" (printf "/etc/outrigger/config/%s" (regexFind "/.+" $v.configMap | trimPrefix "/" | default "sidecar.yaml"))) -}}
{{- end -}}
{{- if $v.telemetry.enabled -}}
  {{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" $v.telemetry.endpoint) -}}
  {{- $_ := set $to.annotations "prometheus.io/port" (toString (int $v.healthPort)) -}}
{{- end -}}
{{- if eq $v.identity "token" -}}
  {{- include "outrigger-sidecar.variable" (dict "to" $to "name" "OUTRIGGER_BACKEND_TOKEN_FILE" "value" "/var/run/secrets/outrigger/token") -}}
  {{- $source := dict "serviceAccountToken" (dict "audience" $v.identityAudience "expirationSeconds" 3600 "path" "token") -}}
  {{- include "outrigger-sidecar.mount" (dict "to" $to "name" "outrigger-identity" "path" "/var/run/secrets/outrigger" "source" (dict "projected" (dict "defaultMode" 292 "sources" (list $source)))) -}}
{{- else if eq $v.identity "spiffe" -}}
  {{- include "outrigger-sidecar.variable" (dict "to" $to "name" "SPIFFE_ENDPOINT_SOCKET" "value" "unix:///run/spiffe/spire-agent.sock") -}}
  {{- include "outrigger-sidecar.mount" (dict "to" $to "name" "outrigger-spiffe" "path" "/run/spiffe" "source" (dict "csi" (dict "driver" "csi.spiffe.io" "readOnly" true))) -}}
{{- end -}}
{{- if kindIs "string" $v.runAsUser -}}
  {{- $_ := unset $c.securityContext "runAsUser" -}}
  {{- $_ := unset $c.securityContext "runAsGroup" -}}
{{- else -}}
  {{- $_ := set $c.securityContext "runAsUser" $v.runAsUser -}}
{{- end -}}
{{- if not $c.volumeMounts -}}
  {{- $_ := unset $c "volumeMounts" -}}
{{- end -}}
{{- range $to.volumes -}}
  {{- if eq .name "outrigger-callers" -}}{{- $_ := set .secret "secretName" $v.callersSecret -}}
  {{- else if eq .name "outrigger-state" -}}{{- $_ := set .secret "secretName" $v.stateKeySecret -}}
  {{- else if eq .name "outrigger-nats" -}}{{- $_ := set .secret "secretName" $v.nats.nkeySecret -}}
  {{- else if eq .name "outrigger-descriptors" -}}{{- $_ := set .configMap "name" $v.descriptorsConfigMap -}}
  {{- else if eq .name "outrigger-config" -}}{{- $_ := set .configMap "name" (empty $config | ternary (regexFind "^[^/]+" $v.configMap) (include "outrigger-sidecar.configName" (dict "name" $.name "config" $config))) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* outrigger-sidecar.backend is the app's address, or empty where the configuration names it. */}}
{{- define "outrigger-sidecar.backend" -}}
{{- $v := .v -}}
{{- $schemes := dict "auto" "http" "grpc" "grpc" "grpcs" "grpcs" "connect" "connect+http" "grpcweb" "grpcweb+http" "https" "https" -}}
{{- $wanted := toString $v.port -}}
{{- $declared := list -}}
{{- $found := list -}}
{{- range .spec.containers -}}
  {{- range .ports | default list -}}
    {{- if eq (.protocol | default "TCP") "TCP" -}}
      {{- $number := toString (int .containerPort) -}}
      {{- $declared = append $declared (printf "%s=%s" (.name | default "") $number | trimPrefix "=") -}}
      {{- if or (eq $wanted "") (eq $wanted (.name | default "")) -}}
        {{- $found = append $found $number | uniq -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $port := "" -}}
{{- if $v.unixSocket.enabled -}}
unix:///run/outrigger/app.sock
{{- else if regexMatch "^[0-9]+$" $wanted -}}
  {{- $port = $wanted -}}
{{- else if and (eq $wanted "") (or $v.configMap (hasKey $v.config "backend") (hasKey $v.config "backends")) -}}
{{- else if eq (len $found) 1 -}}
  {{- $port = first $found -}}
{{- else -}}
  {{- fail (printf "outrigger-sidecar.port is %q: set it to the port of the app's gRPC or Connect server; the pod declares %s" $wanted (join ", " $declared | default "no TCP port")) -}}
{{- end -}}
{{- if $port -}}
  {{- range $name := list "listenPort" "adminPort" "healthPort" -}}
    {{- range append $declared $port -}}
      {{- if eq (regexFind "[0-9]+$" .) (toString (int (get $v $name))) -}}
        {{- fail (printf "outrigger-sidecar.%s is %d, which a container of the pod uses; set it to a free port" $name (int (get $v $name))) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- printf "%s://127.0.0.1:%s" (get $schemes $v.protocol) $port -}}
{{- end -}}
{{- end }}

{{/* outrigger-sidecar.config is the text of the configuration file, or empty. */}}
{{- define "outrigger-sidecar.config" -}}
{{- $config := deepCopy .config -}}
{{- if .nats.address -}}
  {{- $state := merge (dict) ($config.state | default dict) (dict "url" .nats.address "nkey_file" "/etc/outrigger/nats/user.nk" "replicas" .nats.copies) -}}
  {{- $_ := set $config "state" $state -}}
{{- end -}}
{{- if $config -}}{{- toYaml $config -}}{{- end -}}
{{- end }}

{{/* outrigger-sidecar.configName changes with the file, so that pods roll and a rollback finds the former file. */}}
{{- define "outrigger-sidecar.configName" -}}
{{- printf "%s-outrigger-%s" .name (.config | sha256sum | trunc 10) -}}
{{- end }}

{{/* outrigger-sidecar.apply merges a patch of deploy/k8s/components: variables by name, mounts by path, volumes by name. */}}
{{- define "outrigger-sidecar.apply" -}}
{{- $to := .to -}}
{{- $t := (include (printf "outrigger-sidecar.patch.%s" .patch) . | fromYaml).spec.template -}}
{{- $c := first $t.spec.initContainers -}}
{{- $_ := set $to.container "env" (include "outrigger-sidecar.merged" (dict "key" "name" "old" $to.container.env "new" $c.env) | fromYamlArray) -}}
{{- $_ := set $to.container "volumeMounts" (include "outrigger-sidecar.merged" (dict "key" "mountPath" "old" $to.container.volumeMounts "new" $c.volumeMounts) | fromYamlArray) -}}
{{- $_ := set $to "volumes" (include "outrigger-sidecar.merged" (dict "key" "name" "old" $to.volumes "new" $t.spec.volumes) | fromYamlArray) -}}
{{- $_ := set $to "annotations" (merge (dict) (dig "metadata" "annotations" (dict) $t) $to.annotations) -}}
{{- end }}

{{- define "outrigger-sidecar.merged" -}}
{{- $out := list -}}
{{- $new := .new | default list -}}
{{- $key := .key -}}
{{- $taken := list -}}
{{- range $old := .old | default list -}}
  {{- $item := $old -}}
  {{- range $new -}}
    {{- if eq (get . $key) (get $old $key) -}}
      {{- $item = . -}}
      {{- $taken = append $taken (get . $key) -}}
    {{- end -}}
  {{- end -}}
  {{- if not (hasKey $item "$patch") -}}{{- $out = append $out $item -}}{{- end -}}
{{- end -}}
{{- range $new -}}
  {{- if not (or (has (get . $key) $taken) (hasKey . "$patch")) -}}{{- $out = append $out . -}}{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end }}

{{/* outrigger-sidecar.variable sets a variable of the container; an empty value removes it. */}}
{{- define "outrigger-sidecar.variable" -}}
{{- $new := dict "name" .name "value" .value -}}
{{- if not .value -}}{{- $new = dict "name" .name "$patch" "delete" -}}{{- end -}}
{{- $_ := set .to.container "env" (include "outrigger-sidecar.merged" (dict "key" "name" "old" .to.container.env "new" (list $new)) | fromYamlArray) -}}
{{- end }}

{{/* outrigger-sidecar.mount adds a volume, read-only. */}}
{{- define "outrigger-sidecar.mount" -}}
{{- $_ := set .to.container "volumeMounts" (append .to.container.volumeMounts (dict "name" .name "mountPath" .path "readOnly" true)) -}}
{{- $_ := set .to "volumes" (append .to.volumes (merge (dict "name" .name) .source)) -}}
{{- end }}
