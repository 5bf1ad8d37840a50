// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

const (
	// lifetime is that of a certificate. It is replaced after two thirds.
	lifetime = 90 * 24 * time.Hour
	// backdate is for clocks that are behind.
	backdate = time.Hour
	// checkInterval is how often each replica looks for a newer certificate.
	checkInterval = time.Minute
	// maxConflicts is how often replicas may be faster than this one.
	maxConflicts = 5
)

// ErrConflict says that another replica has written the certificate meanwhile.
var ErrConflict = errors.New("another replica was faster")

// Certificate is a serving certificate with the CAs that clients trust, all PEM.
// Each certificate has a separate CA, whose key is never stored. The bundle has the
// former CA too, so that replicas may change over one after the other, also where
// the store has lost it.
type Certificate struct{ Bundle, Chain, Key []byte }

// Store keeps the certificate for all replicas.
type Store interface {
	// Load returns the certificate and its version; both are empty where there is none.
	Load(ctx context.Context) (c Certificate, version string, err error)
	// Save writes it unless its version has changed, which is ErrConflict.
	Save(ctx context.Context, c Certificate, version string) error
}

// Trust tells clients which CAs to trust.
type Trust interface {
	Set(ctx context.Context, bundle []byte) error
}

// Rotator makes the serving certificate and replaces it before it expires. Its
// exported fields are set before its first use.
type Rotator struct {
	Store Store
	Trust Trust
	// Names are DNS names and addresses of the webhook.
	Names   []string
	Log     logr.Logger
	Audit   *Audit
	Metrics *Metrics
	// Interval is the time between two looks for a newer certificate.
	Interval time.Duration

	serving atomic.Pointer[tls.Certificate]
	// trusted is the bundle of what is served.
	trusted []byte
}

// NeedLeaderElection is false: every replica serves.
func (r *Rotator) NeedLeaderElection() bool { return false }

// GetCertificate is for [tls.Config].
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := r.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Start looks after the certificate until the context ends.
func (r *Rotator) Start(ctx context.Context) error {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := r.Ensure(ctx); err != nil && ctx.Err() == nil {
				r.Log.Error(err, "certificate not checked; the present one is served on")
			}
		}
	}
}

// Ensure loads the certificate, or makes a new one where it is missing or due.
func (r *Rotator) Ensure(ctx context.Context) error {
	for range maxConflicts {
		c, version, err := r.Store.Load(ctx)
		if err != nil {
			return fmt.Errorf("load the certificate: %w", err)
		}
		pair, why := r.usable(c, time.Now())
		if why != "" {
			if c, err = issue(time.Now(), r.Names, c.Bundle, r.trusted); err != nil {
				return fmt.Errorf("make a certificate: %w", err)
			}
			if err = r.Store.Save(ctx, c, version); errors.Is(err, ErrConflict) {
				continue
			} else if err != nil {
				return fmt.Errorf("save the certificate: %w", err)
			}
			r.Log.Info("certificate made", "reason", why)
			r.Metrics.rotations.Inc()
			r.Audit.write(Entry{Event: "rotation", Outcome: "made", Message: why})
			if pair, why = r.usable(c, time.Now()); why != "" {
				return fmt.Errorf("the new certificate: %s", why)
			}
		}
		// Clients trust the new CA before any replica uses it.
		if err := r.Trust.Set(ctx, c.Bundle); err != nil {
			return fmt.Errorf("publish the CA: %w", err)
		}
		r.trusted = c.Bundle
		r.serving.Store(pair)
		r.Metrics.certificate(pair.Leaf.NotAfter)
		return nil
	}
	return fmt.Errorf("save the certificate: %w, %d times", ErrConflict, maxConflicts)
}

// usable reads a certificate. It says why a new one is needed, or nothing.
func (r *Rotator) usable(c Certificate, now time.Time) (*tls.Certificate, string) {
	if len(c.Chain) == 0 {
		return nil, "there was none"
	}
	pair, err := tls.X509KeyPair(c.Chain, c.Key)
	if err != nil {
		return nil, err.Error()
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err.Error()
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Bundle)
	for _, name := range r.Names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
			return nil, err.Error()
		}
	}
	if due := pair.Leaf.NotBefore.Add(pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore) * 2 / 3); !now.Before(due) {
		return nil, "two thirds of its life are over"
	}
	return &pair, ""
}

// issue makes a CA and one certificate of it. The CA's key is dropped. The newest CA of each former bundle stays trusted.
func issue(now time.Time, names []string, former ...[]byte) (Certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "outrigger-injector " + now.UTC().Format(time.DateOnly)}, NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: "outrigger-injector"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	for _, c := range []*x509.Certificate{ca, leaf} {
		if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
			return Certificate{}, err
		}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return Certificate{}, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return Certificate{}, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return Certificate{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	for _, f := range former {
		if one := newest(f, now); !bytes.Contains(bundle, one) {
			bundle = append(bundle, one...)
		}
	}
	return Certificate{
		Bundle: bundle,
		Chain:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// newest is the first CA of a bundle, unless it has expired.
func newest(bundle []byte, now time.Time) []byte {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || now.After(c.NotAfter) {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
}
