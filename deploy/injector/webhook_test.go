// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/outrigger-mcp/outrigger/deploy/inject"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// journal is an audit trail in memory.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) last(t *testing.T) Entry {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(j.b.String()), "\n")
	var e Entry
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil {
		t.Fatalf("%v: %q", err, lines)
	}
	return e
}

func decider(t *testing.T, objects ...client.Object) (*Decider, client.Client) {
	t.Helper()
	i, err := inject.New(inject.Options{Never: []string{"outrigger-system"}})
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	return &Decider{Injector: i, Namespaces: c, Direct: c}, c
}

func named(name string, pairs ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{}}
	for n := 0; n < len(pairs); n += 2 {
		m.Labels[pairs[n]] = pairs[n+1]
	}
	return m
}

func callers(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "outrigger-callers"}, Data: map[string][]byte{"callers.yaml": []byte("callers: []")}}
}

const rawPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"shop-7f-","annotations":{ANNOTATIONS},"ownerReferences":[{"kind":"ReplicaSet","name":"shop-7f","controller":true,"apiVersion":"apps/v1","uid":"u"}]},
"spec":{"aFieldOfTheFuture":{"kept":[1]},"terminationGracePeriodSeconds":30,"containers":[{"name":"app","image":"a","ports":[{"containerPort":7000}],"another":"one"}]}}`

// TestWebhook asks the webhook over TLS, as an API server does.
func TestWebhook(t *testing.T) {
	t.Parallel()
	d, _ := decider(t,
		&corev1.Namespace{ObjectMeta: named("shop", inject.Label, inject.Enabled)}, &corev1.Namespace{ObjectMeta: named("plain")},
		&corev1.Namespace{ObjectMeta: named("bare", inject.Label, inject.Enabled)}, callers("shop"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tools"}, Data: map[string]string{"sidecar.yaml": "{}"}})
	trail, m := new(journal), testMetrics(t)
	handler := &Handler{Decider: d, Audit: NewAudit(trail), Metrics: m}
	s := new(shelf)
	r := rotator(t, s)
	if err := r.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := start(t, r, handler)
	for name, tc := range map[string]struct {
		namespace, annotations string
		outcome, reason        string
		warn                   string
	}{
		"injected":              {"shop", ``, "injected", "Selected", ""},
		"config map":            {"shop", `"outrigger.dev/config-map":"tools"`, "injected", "Selected", ""},
		"secret of the team":    {"shop", `"outrigger.dev/auth":"none"`, "injected", "Selected", ""},
		"not asked for":         {"plain", ``, "skipped", "NotSelected", ""},
		"no such config map":    {"shop", `"outrigger.dev/config-map":"toolz"`, "refused", "SourceMissing", "outrigger.dev/config-map: the ConfigMap toolz does not exist in the pod's namespace; create it and restart the pod"},
		"no such key":           {"shop", `"outrigger.dev/config-map":"tools/x.yaml"`, "refused", "SourceMissing", "the ConfigMap tools has no key x.yaml"},
		"no callers":            {"bare", ``, "refused", "SourceMissing", "outrigger.dev/callers-secret: the Secret outrigger-callers does not exist"},
		"bad annotation":        {"shop", `"outrigger.dev/port":"0"`, "refused", "BadAnnotation", "outrigger.dev/port: \"0\": must be a port number"},
		"namespace is unknown":  {"gone", ``, "failed", "failed", "read the namespace gone"},
		"annotation no string":  {"shop", `"outrigger.dev/port":7`, "failed", "failed", "cannot unmarshal number"},
		"the injector's own":    {"outrigger-system", ``, "failed", "failed", "read the namespace"},
		"a warning that is cut": {"shop", `"outrigger.dev/colour-of-the-logs":"red"`, "refused", "BadAnnotation", "annotation is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			res := review(t, s, url, tc.namespace, strings.Replace(rawPod, "ANNOTATIONS", tc.annotations, 1))
			if !res.Allowed {
				t.Fatalf("the pod is not allowed: %+v", res)
			}
			e := trail.last(t)
			if e.Outcome != tc.outcome || e.Reason != tc.reason || e.Pod != "shop-7f-*" && tc.outcome != "failed" || e.Namespace != tc.namespace || e.User != "controller" {
				t.Errorf("the audit trail says %+v, want %s %s", e, tc.outcome, tc.reason)
			}
			if text := strings.Join(res.Warnings, "\n"); !strings.Contains(text, tc.warn) || (text == "") != (tc.warn == "") || len(text) > maxWarningBytes {
				t.Errorf("warnings %q, want %q", text, tc.warn)
			}
			if (len(res.Patch) > 0) != (tc.outcome == "injected") {
				t.Errorf("the patch is %s", res.Patch)
			}
			if bytes.Contains(res.Patch, []byte("remove")) || bytes.Contains(res.Patch, []byte("Future")) {
				t.Errorf("the patch touches what it does not know: %s", res.Patch)
			}
		})
	}
	if got := testutil.ToFloat64(m.decisions.WithLabelValues("refused", "SourceMissing")); got != 3 {
		t.Errorf("%v refusals are counted, want 3", got)
	}
	// A rotation in between: the next connection has the new certificate.
	s.c = Certificate{Bundle: s.c.Bundle}
	if err := r.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	review(t, s, url, "shop", strings.Replace(rawPod, "ANNOTATIONS", "", 1))
}

// TestOtherObjects: what is no creation of a pod is allowed as it is.
func TestOtherObjects(t *testing.T) {
	t.Parallel()
	d, _ := decider(t)
	h := &Handler{Decider: d, Audit: NewAudit(io.Discard), Metrics: testMetrics(t)}
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"an update":     func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"a service":     func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Service" },
		"a subresource": func(r *admissionv1.AdmissionRequest) { r.SubResource = "binding" },
	} {
		req := webhook.AdmissionRequest{AdmissionRequest: request("shop", rawPod)}
		change(&req.AdmissionRequest)
		if res := h.Handle(t.Context(), req); !res.Allowed || len(res.Patch) > 0 || len(res.Warnings) > 0 {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func request(namespace, pod string) admissionv1.AdmissionRequest {
	req := admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Namespace: namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)},
	}
	req.UserInfo.Username = "controller"
	return req
}

// start serves on loopback until the test ends.
func start(t *testing.T, r *Rotator, h *Handler) string {
	t.Helper()
	address := testkit.Reserved(t)
	server, err := webhookServer(address, r.GetCertificate)
	if err != nil {
		t.Fatal(err)
	}
	server.Register(Path, &webhook.Admission{Handler: h})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	testkit.Try(t, "the webhook listens", func() error { return server.StartedChecker()(nil) })
	return "https://" + address + Path
}

// review posts an AdmissionReview, trusting the bundle of now.
func review(t *testing.T, s *shelf, url, namespace, pod string) admissionv1.AdmissionResponse {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.bundle)
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13}}}
	defer c.CloseIdleConnections()
	req := request(namespace, pod)
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &req})
	if err != nil {
		t.Fatal(err)
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	res, err := c.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out admissionv1.AdmissionReview
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || out.Response == nil || out.Response.UID != "1" {
		t.Fatalf("HTTP %d: %v, %+v", res.StatusCode, err, out)
	}
	return *out.Response
}
