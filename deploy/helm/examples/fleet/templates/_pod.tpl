{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet
{{- end }}

{{- define "fleet.pod" -}}
metadata:
  labels: {{- include "fleet.labels" . | nindent 4 }}
spec:
  serviceAccountName: fleet
  automountServiceAccountToken: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: fleet
      image: {{ .Values.image }}
      {{- if (index .Values "outrigger-sidecar").unixSocket.enabled }}
      args: [-listen, "unix:///run/outrigger/app.sock"]
      volumeMounts:
        - name: outrigger-socket
          mountPath: /run/outrigger
      {{- else }}
      # On loopback, so that the sidecar is the only way in.
      args: [-listen, "127.0.0.1:50051"]
      {{- end }}
      resources:
        requests:
          cpu: 20m
          memory: 32Mi
        limits:
          memory: 96Mi
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
{{- end }}
