{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Made by `make helm-generate` from deploy/k8s/components. */}}

{{- define "outrigger-sidecar.patch.sidecar" -}}
# The sidecar as a native sidecar: an init container that goes on (Kubernetes 1.29 and later). It starts before the app
# and is stopped after it.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    metadata:
      labels:
        outrigger.dev/sidecar: "true"
    spec:
      # Longer than the delay before the drain (5 s), the drain (--grace, 25 s) and the end of the app together.
      terminationGracePeriodSeconds: 45
      initContainers:
        - name: sidecar
          image: registry.example/outrigger/sidecar:0.1.0-dev
          restartPolicy: Always
          args: [serve]
          # Variables rather than arguments, because patches can change one of them. They win over a configuration file.
          env:
            - name: OUTRIGGER_BACKEND
              value: http://127.0.0.1:50051
            - name: OUTRIGGER_LISTEN
              value: ":8080"
            - name: OUTRIGGER_ADMIN
              value: 127.0.0.1:9901
            - name: OUTRIGGER_HEALTH
              value: ":9902"
            - name: OUTRIGGER_TOKENS
              value: /etc/outrigger/callers/callers.yaml
            # The root file system is read-only; components/records keeps run records on a volume.
            - name: OUTRIGGER_RECORD_DIR
              value: "off"
            - name: OUTRIGGER_LOG_FORMAT
              value: json
          ports:
            - name: mcp
              containerPort: 8080
            - name: health
              containerPort: 9902
          # The app is started when this has succeeded, so it must not wait for the app.
          startupProbe:
            httpGet:
              path: /startupz
              port: health
            periodSeconds: 1
            timeoutSeconds: 2
            failureThreshold: 60
          # Ready when there are tools, which takes the app. Without it the pod gets no traffic, and is not restarted.
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          # Asks about the process alone: a restart of the sidecar does not heal the app.
          livenessProbe:
            httpGet:
              path: /livez
              port: health
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          lifecycle:
            preStop:
              exec:
                # It serves on while the cluster takes the pod out of its Services, and then answers what is in flight.
                command: [/sidecar, drain, --admin, "127.0.0.1:9901", --delay, 5s]
          resources:
            requests:
              cpu: 50m
              memory: 64Mi
            limits:
              # No limit of CPU: being throttled shows as latency of every call. Of the memory the sidecar takes nine tenths for
              # Go by itself, as its cgroup says it; GOMEMLIMIT would go before that, and leave no room for the rest.
              memory: 128Mi
          securityContext:
            runAsNonRoot: true
            runAsUser: 65532
            runAsGroup: 65532
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
            seccompProfile:
              type: RuntimeDefault
          volumeMounts:
            - name: outrigger-callers
              mountPath: /etc/outrigger/callers
              readOnly: true
      volumes:
        # Who may call. The pod does not start before the Secret is there.
        - name: outrigger-callers
          secret:
            secretName: outrigger-callers
            defaultMode: 0444
{{- end }}

{{- define "outrigger-sidecar.patch.unix-socket" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_BACKEND
              value: unix:///run/outrigger/app.sock
          volumeMounts:
            - name: outrigger-socket
              mountPath: /run/outrigger
      volumes:
        - name: outrigger-socket
          emptyDir:
            medium: Memory
            sizeLimit: 1Mi
{{- end }}

{{- define "outrigger-sidecar.patch.configuration" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_CONFIG
              value: /etc/outrigger/config/sidecar.yaml
            # The file says where the backend is; the variable would win over it.
            - name: OUTRIGGER_BACKEND
              $patch: delete
          volumeMounts:
            - name: outrigger-config
              mountPath: /etc/outrigger/config
              readOnly: true
      volumes:
        - name: outrigger-config
          configMap:
            name: outrigger
{{- end }}

{{- define "outrigger-sidecar.patch.descriptors" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_DESCRIPTORS
              value: /etc/outrigger/descriptors/api.binpb
          volumeMounts:
            - name: outrigger-descriptors
              mountPath: /etc/outrigger/descriptors
              readOnly: true
      volumes:
        - name: outrigger-descriptors
          configMap:
            name: outrigger-descriptors
{{- end }}

{{- define "outrigger-sidecar.patch.records" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_RECORD_DIR
              value: /var/lib/outrigger/runs
          volumeMounts:
            - name: outrigger-runs
              mountPath: /var/lib/outrigger
      volumes:
        - name: outrigger-runs
          emptyDir:
            # The pod is evicted above this: a line takes some 400 bytes, so it holds about a million calls.
            sizeLimit: 512Mi
{{- end }}

{{- define "outrigger-sidecar.patch.replicas" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  replicas: 2
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_STATE_KEY
              value: /etc/outrigger/state/state.key
          volumeMounts:
            - name: outrigger-state
              mountPath: /etc/outrigger/state
              readOnly: true
      volumes:
        - name: outrigger-state
          secret:
            secretName: outrigger-state
            defaultMode: 0444
{{- end }}

{{- define "outrigger-sidecar.patch.shared-state" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          volumeMounts:
            - name: outrigger-nats
              mountPath: /etc/outrigger/nats
              readOnly: true
      volumes:
        - name: outrigger-nats
          secret:
            secretName: outrigger-nats
            items:
              - key: user.nk
                path: user.nk
            defaultMode: 0444
{{- end }}

{{- define "outrigger-sidecar.patch.telemetry" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    metadata:
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "9902"
        prometheus.io/path: /metrics
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OTEL_EXPORTER_OTLP_ENDPOINT
              value: http://otel-collector.observability:4318
            # Prometheus scrapes the metrics. Without it, delete this variable and the annotations.
            - name: OTEL_METRICS_EXPORTER
              value: none
            # One trace in a hundred, unless the caller decided. With tail sampling in the collector: parentbased_always_on.
            - name: OTEL_TRACES_SAMPLER
              value: parentbased_traceidratio
            - name: OTEL_TRACES_SAMPLER_ARG
              value: "0.01"
            - name: OTEL_SERVICE_NAME
              value: outrigger
            - name: K8S_POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: K8S_POD_UID
              valueFrom: {fieldRef: {fieldPath: metadata.uid}}
            - name: K8S_NAMESPACE_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: K8S_NODE_NAME
              valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
            - name: OTEL_RESOURCE_ATTRIBUTES
              value: >-
                service.instance.id=$(K8S_POD_UID),k8s.pod.name=$(K8S_POD_NAME),k8s.pod.uid=$(K8S_POD_UID),k8s.namespace.name=$(K8S_NAMESPACE_NAME),k8s.node.name=$(K8S_NODE_NAME),k8s.container.name=sidecar
{{- end }}

{{- define "outrigger-sidecar.patch.no-auth" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: any
spec:
  template:
    spec:
      initContainers:
        - name: sidecar
          env:
            - name: OUTRIGGER_TOKENS
              $patch: delete
            - name: OUTRIGGER_INSECURE_NO_AUTH
              value: "true"
          volumeMounts:
            - mountPath: /etc/outrigger/callers
              $patch: delete
      volumes:
        - name: outrigger-callers
          $patch: delete
{{- end }}

{{- define "outrigger-sidecar.object.network-policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: outrigger
spec:
  podSelector:
    matchLabels: {}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              outrigger.dev/client: "true"
      ports:
        - protocol: TCP
          port: 8080
    # Only probes and metrics are served there.
    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: monitoring
      ports:
        - protocol: TCP
          port: 9902
{{- end }}

{{- define "outrigger-sidecar.object.disruption-budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: outrigger
spec:
  maxUnavailable: 1
  # A pod that never became ready must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {}
{{- end }}

{{- define "outrigger-sidecar.object.pod-monitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: outrigger
spec:
  selector:
    matchLabels: {}
  podMetricsEndpoints:
    - port: health
      path: /metrics
      interval: 15s
{{- end }}

{{- define "outrigger-sidecar.object.http-route" -}}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: outrigger
spec:
  parentRefs:
    - name: gateway
  hostnames: [fleet.example.com]
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /mcp
        - path:
            type: PathPrefix
            value: /rpc
      # Event streams have no end of their own; the sidecar bounds the calls.
      timeouts:
        request: 0s
      backendRefs:
        - name: outrigger
          port: 8080
{{- end }}

{{- define "outrigger-sidecar.object.grpc-route" -}}
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata:
  name: outrigger
spec:
  parentRefs:
    - name: gateway
  hostnames: [fleet.example.com]
  rules:
    - matches:
        - method:
            service: outrigger.v1.ToolService
        - method:
            service: grpc.health.v1.Health
      backendRefs:
        - name: outrigger
          port: 8081
{{- end }}
