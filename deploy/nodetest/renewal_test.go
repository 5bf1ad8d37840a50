// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

const (
	// renewed is the namespace of the pods that are admitted, webhookName what the webhook's certificate is for.
	renewed, webhookName = "renewed", "outrigger-injector.outrigger-system.svc"
	webhookPath          = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/outrigger-injector"
)

// renewal is the injector, in its pods, with a certificate of cert-manager. cert-manager's programs are not there: the test writes what they
// write, the Secret of the Certificate and the webhook's caBundle.
type renewal struct {
	n                      *node.Node
	authority              *tlstest.Authority
	pair                   tlstest.Pair
	addresses              []string
	admissions, handshakes atomic.Int64
}

// testRenewal replaces certificate and CA while pods are admitted: no pod misses the sidecar, and the API server could connect anew to
// each replica at any time.
func testRenewal(t *testing.T, n *node.Node, p prepared, r *result) {
	const kustomization = "deploy/k8s/examples/injector-cert-manager"
	s := newShell(t, n, p)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			out, err := s.command(ctx, "kubectl get pods,events --namespace outrigger-system; kubectl logs --namespace outrigger-system deployment/outrigger-injector").CombinedOutput()
			t.Logf("%s (%v)", out, err)
		}
		if out, err := s.command(ctx, "kubectl delete -k "+kustomization).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	apply(t, n, object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": renewed, "labels": map[string]any{injectLabel: "enabled"}}}, false)
	makeAccessIn(t, n, renewed, "default")
	f := &renewal{n: n, authority: tlstest.NewAuthority(t)}
	f.pair = f.authority.Issue(t, tlstest.Leaf{Hosts: []string{webhookName}})
	s.run(t, "kubectl apply -k "+kustomization)
	f.write(t)
	s.run(t, "kubectl rollout status --namespace outrigger-system deployment/outrigger-injector")
	within(t, time.Minute, "pods get the sidecar", func() error { return f.admit(t.Context()) })
	f.addresses = strings.Fields(s.run(t, "kubectl get pods --namespace outrigger-system --output jsonpath='{.items[*].status.podIP}'"))
	if len(f.addresses) != 2 {
		t.Fatalf("the replicas are at %v, want two", f.addresses)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() { f.repeat(ctx, t, &f.admissions, f.admit) })
	}
	for _, address := range f.addresses {
		load.Go(func() {
			f.repeat(ctx, t, &f.handshakes, func(ctx context.Context) error {
				_, err := f.serves(ctx, address)
				return err
			})
		})
	}
	took := []time.Duration{f.renew(t, func() {}), f.renew(t, func() { f.authority.Renew(t) })}
	stop()
	load.Wait()
	r.renewal = fmt.Sprintf("%d pods admitted, each with the sidecar, and %d new connections to both replicas, none refused; both served the next certificate after %v, and that of a CA "+
		"that was renewed with its key after %v", f.admissions.Load(), f.handshakes.Load(), round(took[0]), round(took[1]))
	t.Log(r.renewal)
}

// repeat does something until the context ends, without a fault.
func (f *renewal) repeat(ctx context.Context, t *testing.T, count *atomic.Int64, what func(context.Context) error) {
	t.Helper()
	for ctx.Err() == nil {
		if err := what(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
			return
		}
		count.Add(1)
		time.Sleep(20 * time.Millisecond) // some pods, not a load
	}
}

// write writes the Secret as cert-manager does, and then caBundle as its cainjector does.
func (f *renewal) write(t *testing.T) {
	t.Helper()
	data := map[string]any{}
	var bundle []byte
	for name, path := range map[string]string{"ca.crt": f.authority.File, "tls.crt": f.pair.CertFile, "tls.key": f.pair.KeyFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[name] = text
		if name == "ca.crt" {
			bundle = text
		}
	}
	apply(t, f.n, object{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data, "metadata": map[string]any{"name": "outrigger-injector-cert", "namespace": system},
	}, false)
	webhooks := []any{}
	for _, name := range []string{"namespace", "pod"} {
		webhooks = append(webhooks, map[string]any{
			"name": name + ".inject.outrigger.dev", "clientConfig": map[string]any{"caBundle": bundle}, "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
		})
	}
	apply(t, f.n, object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": "outrigger-injector"}, "webhooks": webhooks,
	}, false)
}

// renew replaces the certificate, after a change of the CA, and returns how long it took until both replicas served it.
func (f *renewal) renew(t *testing.T, change func()) time.Duration {
	t.Helper()
	change()
	f.authority.Reissue(t, f.pair, tlstest.Leaf{Hosts: []string{webhookName}})
	began := time.Now()
	f.write(t)
	want := f.pair.Certificate(t).Leaf
	for _, address := range f.addresses {
		// The kubelet looks after Secrets about once a minute.
		within(t, 4*time.Minute, "the replica at "+address+" serves the next certificate", func() error {
			got, err := f.serves(t.Context(), address)
			if err == nil && !got.Equal(want) {
				err = errors.New("the former one")
			}
			return err
		})
		if want := fmt.Sprintf("outrigger_injector_certificate_not_after_timestamp_seconds %g\n", float64(want.NotAfter.Unix())); !strings.Contains(f.metrics(t, address), want) {
			t.Errorf("the metrics of the replica at %s have no %q", address, want)
		}
	}
	return time.Since(began)
}

func (f *renewal) metrics(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+":8080/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// admit creates a pod in a dry run, and wants it to have the sidecar.
func (f *renewal) admit(ctx context.Context) error {
	var p foundPod
	warnings, err := f.n.API().Post(ctx, "/api/v1/namespaces/"+renewed+"/pods?dryRun=All", barePod(renewed, "any", map[string]any{}, map[string]any{}), &p)
	if err == nil && (p.sidecars() != 1 || len(warnings) > 0) {
		err = fmt.Errorf("the pod has %d sidecars, and the warnings %q", p.sidecars(), warnings)
	}
	return err
}

// serves connects as the API server does, with the caBundle of now, and returns the certificate.
func (f *renewal) serves(ctx context.Context, address string) (*x509.Certificate, error) {
	var webhook struct {
		Webhooks []struct{ ClientConfig struct{ CABundle []byte } }
	}
	if err := f.n.API().Get(ctx, webhookPath, &webhook); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(webhook.Webhooks[0].ClientConfig.CABundle)
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: webhookName, MinVersion: tls.VersionTLS13}}
	conn, err := d.DialContext(ctx, "tcp", address+":9443")
	if err != nil {
		return nil, err
	}
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	return leaf, conn.Close()
}
