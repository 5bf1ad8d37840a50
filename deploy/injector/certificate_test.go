// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const host = "outrigger-injector.outrigger-system.svc"

// shelf is a Store and a Trust of replicas in one process.
type shelf struct {
	mu      sync.Mutex
	c       Certificate
	version int
	bundle  []byte
	fault   error
	// before runs in each Save, without the lock.
	before func()
}

func (s *shelf) Load(context.Context) (Certificate, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == 0 {
		return Certificate{}, "", s.fault
	}
	return s.c, strconv.Itoa(s.version), s.fault
}

func (s *shelf) Save(_ context.Context, c Certificate, version string) error {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != 0 && version != strconv.Itoa(s.version) || s.version == 0 && version != "" {
		return ErrConflict
	}
	s.c, s.version = c, s.version+1
	return nil
}

func (s *shelf) Set(_ context.Context, bundle []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundle = bundle
	return s.fault
}

func rotator(t *testing.T, s *shelf) *Rotator {
	t.Helper()
	return &Rotator{Store: s, Trust: s, Names: []string{host, "127.0.0.1"}, Log: logr.Discard(), Audit: NewAudit(io.Discard), Metrics: testMetrics(t), Interval: 12 * time.Hour}
}

func testMetrics(t *testing.T) *Metrics {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// trusted verifies what a replica serves as the API server does, with the bundle of now.
func trusted(t *testing.T, s *shelf, r *Rotator) *x509.Certificate {
	t.Helper()
	c, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	s.mu.Lock()
	roots.AppendCertsFromPEM(s.bundle)
	s.mu.Unlock()
	for _, name := range []string{host, "127.0.0.1"} {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: time.Now()}); err != nil {
			t.Fatalf("after %v: %v", time.Since(c.Leaf.NotBefore), err)
		}
	}
	return c.Leaf
}

// TestRotation runs two replicas for a year. At any hour both serve a certificate that
// clients trust, and each certificate is made once.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(shelf)
		replicas := []*Rotator{rotator(t, s), rotator(t, s)}
		ctx, cancel := context.WithCancel(t.Context())
		for _, r := range replicas {
			if err := r.Ensure(ctx); err != nil {
				t.Fatal(err)
			}
			go func() { _ = r.Start(ctx) }()
			time.Sleep(r.Interval / 2) // so that they look by turns
		}
		for range 365 * 24 / 5 {
			time.Sleep(5 * time.Hour)
			for _, r := range replicas {
				if leaf := trusted(t, s, r); time.Until(leaf.NotAfter) < lifetime/4 {
					t.Fatalf("a certificate is served that ends in %v", time.Until(leaf.NotAfter))
				}
			}
		}
		if s.version < 6 || s.version > 7 {
			t.Errorf("%d certificates in a year, want one in 60 days", s.version)
		}
		if n := bytes.Count(s.bundle, []byte("BEGIN CERTIFICATE")); n != 2 {
			t.Errorf("the bundle has %d CAs, want the present and the former one", n)
		}
		cancel()
		synctest.Wait()
	})
}

// TestRotationFaults: what is not usable is replaced, while clients go on to trust the replica that has not seen it yet. A replica
// that lost the race takes the winner's, and while the API server is away the present certificate is served.
func TestRotationFaults(t *testing.T) {
	t.Parallel()
	s := new(shelf)
	first, second := rotator(t, s), rotator(t, s)
	if _, err := first.GetCertificate(nil); err == nil {
		t.Error("a certificate is there before any was made")
	}
	s.before = func() {
		s.before = nil
		if err := second.Ensure(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := trusted(t, s, first), trusted(t, s, second); !a.Equal(b) || s.version != 1 {
		t.Errorf("replicas that started at once serve different certificates, of %d", s.version)
	}
	s.fault = errors.New("away")
	if err := first.Ensure(t.Context()); err == nil {
		t.Error("no error while the store is away")
	}
	trusted(t, s, first)
	s.fault = nil
	for name, c := range map[string]Certificate{
		"nonsense":     {Bundle: s.c.Bundle, Chain: []byte("x"), Key: s.c.Key},
		"another key":  {Bundle: s.c.Bundle, Chain: s.c.Chain, Key: issued(t, host).Key},
		"another CA":   {Bundle: issued(t, host).Bundle, Chain: s.c.Chain, Key: s.c.Key},
		"another name": issued(t, "elsewhere.svc"),
		"emptied":      {},
	} {
		before := s.version
		s.c = c
		if err := first.Ensure(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.version != before+1 {
			t.Errorf("%s: was not replaced", name)
		}
		trusted(t, s, first)
		trusted(t, s, second)
		if err := second.Ensure(t.Context()); err != nil || !trusted(t, s, first).Equal(trusted(t, s, second)) {
			t.Errorf("%s: the other replica serves another certificate (%v)", name, err)
		}
	}
}

func issued(t *testing.T, name string) Certificate {
	t.Helper()
	c, err := issue(time.Now(), []string{name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFilesOfOthers: a certificate in files, as cert-manager makes it, is served, and the next
// one as soon as the files change.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	o := Options{CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key")}
	write := func() *x509.Certificate {
		c := issued(t, host)
		for path, text := range map[string][]byte{o.CertFile: c.Chain, o.KeyFile: c.Key} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		block, _ := pem.Decode(c.Chain)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return leaf
	}
	if _, _, err := certificates(t.Context(), nil, o, nil, nil); err == nil {
		t.Error("files that are not there are accepted")
	}
	want := write()
	m := testMetrics(t)
	get, watcher, err := certificates(t.Context(), nil, o, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- watcher.Start(ctx) }()
	serves := func() error {
		c, err := get(nil)
		if err == nil && !bytes.Equal(c.Certificate[0], want.Raw) {
			err = errors.New("another certificate")
		}
		if end := testutil.ToFloat64(m.certificateNotAfter); err == nil && end != float64(want.NotAfter.Unix()) {
			err = fmt.Errorf("the metric says that it ends at %v", end)
		}
		return err
	}
	testkit.Try(t, "the first certificate is served", serves)
	want = write()
	testkit.Try(t, "the second certificate is served", serves)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOptions: each fault names its flag.
func TestOptions(t *testing.T) {
	t.Parallel()
	err := Options{CertFile: "a", SweepInterval: time.Millisecond, RestartsPerMinute: -1, DrainDelay: time.Hour}.check()
	for _, want := range []string{"--namespace", "--tls-cert and --tls-key", "--sweep-interval", "--restarts-per-minute", "--drain-delay"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if err := (Options{Namespace: "a", SweepInterval: time.Second}).check(); err == nil || !strings.Contains(err.Error(), "--tls-names") {
		t.Errorf("without a name: %v", err)
	}
}
