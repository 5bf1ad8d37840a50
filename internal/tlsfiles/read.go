// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// maxFileBytes bounds one file: a bundle of all public authorities has about
// 250 KB.
const maxFileBytes = 1 << 20

// ErrHalfPair is the error of a certificate without a key, or a key without a
// certificate.
var ErrHalfPair = errors.New("certificate and key must be set together")

func read(path string) ([]byte, error) { return Read(path, maxFileBytes) }

// Read reads a whole file of at most this many bytes. A file that is not regular is refused:
// to open a pipe waits for a writer, and some devices have no end. Errors name the path and
// show nothing of the contents.
func Read(path string, most int) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, nil
}

// readPair reads a certificate with its key. One that has run out is as bad as
// none: no peer would take it.
func readPair(certFile, keyFile string, now time.Time) (*tls.Certificate, error) {
	cert, err := read(certFile)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := read(keyFile)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		return nil, fmt.Errorf("certificate %s: the first certificate cannot be parsed", certFile)
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("certificate %s expired at %s; replace it", certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

// readPool reads authorities. Each of them has to be readable, because a missing
// one would only show in the callers that it shuts out.
func readPool(path string) (*x509.CertPool, error) {
	rest, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, n := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("CA file %s: block %d is not a certificate", path, n+1)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("CA file %s: certificate %d: %w", path, n+1, err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, fmt.Errorf("CA file %s: contains no certificate", path)
	}
	return pool, nil
}

// names are the URI names of a certificate that fit one of the patterns, in the
// certificate's order; all of them where there are no patterns.
func names(uris []*url.URL, patterns []string) []string {
	var out []string
	for _, u := range uris {
		if name := u.String(); len(patterns) == 0 || glob.MatchAny(patterns, name) {
			out = append(out, name)
		}
	}
	return out
}

// checkNames is why a leaf certificate that the chain vouches for is no identity
// here: what it says is not valid, or none of its names fits the patterns.
func checkNames(leaf *x509.Certificate, patterns []string) error {
	if err := checkSVID(leaf); err != nil {
		return err
	}
	if len(names(leaf.URIs, patterns)) == 0 {
		return nameError(leaf.URIs)
	}
	return nil
}

// nameError says which names a certificate carries, where none of them will do.
func nameError(uris []*url.URL) error {
	if len(uris) == 0 {
		return errors.New("the certificate has no URI name")
	}
	return fmt.Errorf("the certificate's URI name %.256q is not allowed", uris[0].String())
}
