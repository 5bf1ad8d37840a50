// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSecretStore: a certificate comes back as it was, and an older version overwrites nothing.
func TestSecretStore(t *testing.T) {
	t.Parallel()
	_, c := decider(t)
	s := &SecretStore{Client: c, Namespace: "outrigger-system", Name: "tls"}
	if got, version, err := s.Load(t.Context()); err != nil || version != "" || len(got.Chain) > 0 {
		t.Fatalf("before there is one: %+v, %q, %v", got, version, err)
	}
	first, second := issued(t, host), issued(t, host)
	if err := s.Save(t.Context(), first, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), second, ""); !errors.Is(err, ErrConflict) {
		t.Errorf("a second first one: %v", err)
	}
	got, version, err := s.Load(t.Context())
	if diff := cmp.Diff(first, got); err != nil || diff != "" {
		t.Errorf("%v, (-saved +loaded):\n%s", err, diff)
	}
	if err := s.Save(t.Context(), second, version); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), first, version); !errors.Is(err, ErrConflict) {
		t.Errorf("an older version: %v", err)
	}
}

// TestWebhookTrust: every webhook of the configuration gets the CAs.
func TestWebhookTrust(t *testing.T) {
	t.Parallel()
	_, c := decider(t, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "w"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}},
	})
	w := &WebhookTrust{Client: c, Name: "w"}
	for _, bundle := range []string{"one", "one", "two"} {
		if err := w.Set(t.Context(), []byte(bundle)); err != nil {
			t.Fatal(err)
		}
		var got admissionregistrationv1.MutatingWebhookConfiguration
		if err := c.Get(t.Context(), client.ObjectKey{Name: "w"}, &got); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range got.Webhooks {
			if string(webhook.ClientConfig.CABundle) != bundle {
				t.Errorf("%s trusts %q, want %q", webhook.Name, webhook.ClientConfig.CABundle, bundle)
			}
		}
	}
	if err := (&WebhookTrust{Client: c, Name: "nosuch"}).Set(t.Context(), nil); err == nil {
		t.Error("a configuration that does not exist is accepted")
	}
}
