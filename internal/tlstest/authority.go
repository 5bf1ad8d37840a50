// SPDX-License-Identifier: Apache-2.0

// Package tlstest makes certificates for tests, at run time and for an hour, so
// that no key is ever kept beside the code. It is for tests alone.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File holds its own certificate, Pool too.
	File string
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with its own key.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{key: newKey(tb), Pool: x509.NewCertPool(), File: filepath.Join(tb.TempDir(), "ca.pem")}
	a.Renew(tb)
	return a
}

// Renew writes another certificate of the same key over the authority's own. What was issued before remains valid.
func (a *Authority) Renew(tb testing.TB) {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	check(tb, err)
	a.cert, err = x509.ParseCertificate(der)
	check(tb, err)
	a.Pool.AddCert(a.cert)
	write(tb, a.File, "CERTIFICATE", der)
}

// Leaf is what a certificate is to say.
type Leaf struct {
	// Hosts are DNS names and addresses, URIs its URI names.
	Hosts, URIs []string
	// Life is how long it holds from now on; zero is an hour, and less than zero
	// has run out.
	Life time.Duration
	// IsCA makes it a signing certificate.
	IsCA bool
}

// Pair are the files of a certificate and its key.
type Pair struct{ CertFile, KeyFile string }

// Issue writes a certificate, which servers and clients may show, to two new
// files.
func (a *Authority) Issue(tb testing.TB, leaf Leaf) Pair {
	tb.Helper()
	dir := tb.TempDir()
	p := Pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	a.Reissue(tb, p, leaf)
	return p
}

// Reissue writes another certificate and key over the files of a pair.
func (a *Authority) Reissue(tb testing.TB, p Pair, leaf Leaf) {
	tb.Helper()
	if leaf.Life == 0 {
		leaf.Life = time.Hour
	}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "test leaf"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(leaf.Life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if leaf.IsCA {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	for _, uri := range leaf.URIs {
		u, err := url.Parse(uri)
		check(tb, err)
		template.URIs = append(template.URIs, u)
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	check(tb, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(tb, err)
	write(tb, p.CertFile, "CERTIFICATE", der)
	write(tb, p.KeyFile, "PRIVATE KEY", keyDER)
}

// Certificate reads the pair.
func (p Pair) Certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	check(tb, err)
	return pair
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(tb, err)
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	check(tb, err)
	return n
}

func write(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	check(tb, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
