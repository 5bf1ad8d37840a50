// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"bytes"
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// caKey is the bundle's in the Secret, as cert-manager names it.
const caKey = "ca.crt"

// SecretStore keeps the certificate in a Secret.
type SecretStore struct {
	Client          client.Client
	Namespace, Name string
}

// Load implements [Store].
func (s *SecretStore) Load(ctx context.Context) (Certificate, string, error) {
	var secret corev1.Secret
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return Certificate{}, "", nil
	}
	return Certificate{
		Bundle: secret.Data[caKey], Chain: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey],
	}, secret.ResourceVersion, err
}

// Save implements [Store].
func (s *SecretStore) Save(ctx context.Context, c Certificate, version string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, ResourceVersion: version, Labels: map[string]string{"app.kubernetes.io/name": "outrigger-injector"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{caKey: c.Bundle, corev1.TLSCertKey: c.Chain, corev1.TLSPrivateKeyKey: c.Key},
	}
	var err error
	if version == "" {
		err = s.Client.Create(ctx, secret)
	} else {
		err = s.Client.Update(ctx, secret)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ErrConflict
	}
	return err
}

// WebhookTrust publishes the CAs in a MutatingWebhookConfiguration.
type WebhookTrust struct {
	Client client.Client
	Name   string
}

// Set implements [Trust]. Another replica may write the same at the same time.
func (w *WebhookTrust) Set(ctx context.Context, bundle []byte) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var c admissionregistrationv1.MutatingWebhookConfiguration
		if err := w.Client.Get(ctx, client.ObjectKey{Name: w.Name}, &c); err != nil {
			return err
		}
		changed := false
		for n := range c.Webhooks {
			if !bytes.Equal(c.Webhooks[n].ClientConfig.CABundle, bundle) {
				c.Webhooks[n].ClientConfig.CABundle = bundle
				changed = true
			}
		}
		if !changed {
			return nil
		}
		return w.Client.Update(ctx, &c)
	})
}
