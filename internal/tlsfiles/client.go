// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"
)

// ClientOptions configure the trusted CAs, the accepted servers and our identity.
type ClientOptions struct {
	// CAFile holds CAs that replace the system's.
	CAFile string
	// CertFile and KeyFile hold our certificate, with its intermediates, and its
	// private key. Set both or neither.
	CertFile, KeyFile string
	// ServerName is the name that the peer's certificate must carry, unless ServerURIs
	// are given, and the SNI that we send. It is required.
	ServerName string
	// ServerURIs are patterns (see package glob) for URI names. The peer's certificate
	// must carry a match. They replace ServerName in verification.
	ServerURIs []string
}

// Client is the client side. Make one with [NewClient].
type Client struct {
	opts    ClientOptions
	current atomic.Pointer[clientFiles]
}

// clientFiles is what the files said. Immutable.
type clientFiles struct {
	roots *x509.CertPool   // nil for the system's
	pair  *tls.Certificate // nil for none
}

// NewClient reads the files and returns a Client.
func NewClient(o ClientOptions) (*Client, error) {
	c := &Client{opts: o}
	if o.ServerName == "" {
		return nil, errors.New("the peer's name is unknown, so its certificate cannot be verified")
	}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. On an error, the previous content stays in use.
func (c *Client) Reload() error {
	files := &clientFiles{}
	var err error
	if c.opts.CAFile != "" {
		if files.roots, err = readPool(c.opts.CAFile); err != nil {
			return err
		}
	}
	switch {
	case c.opts.CertFile == "" && c.opts.KeyFile == "":
	case c.opts.CertFile == "" || c.opts.KeyFile == "":
		return ErrHalfPair
	default:
		if files.pair, err = readPair(c.opts.CertFile, c.opts.KeyFile, time.Now()); err != nil {
			return err
		}
	}
	c.current.Store(files)
	return nil
}

// Config returns the configuration for a dialer, which may clone it. The peer is
// verified against the current CAs. tls.Config has no hook for that, so its own
// verification is replaced, not omitted.
func (c *Client) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.opts.ServerName,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does all of it, for resumed sessions too
		VerifyConnection:   c.verifyPeer,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if pair := c.current.Load().pair; pair != nil {
				return pair, nil
			}
			return &tls.Certificate{}, nil // none, as the interface wants it said
		},
	}
}

// verifyPeer verifies the peer's chain and name.
func (c *Client) verifyPeer(state tls.ConnectionState) error {
	certs := state.PeerCertificates
	if len(certs) == 0 {
		return errors.New("the peer sent no certificate")
	}
	options := x509.VerifyOptions{
		Roots: c.current.Load().roots, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(c.opts.ServerURIs) == 0 {
		options.DNSName = c.opts.ServerName
	}
	for _, cert := range certs[1:] {
		options.Intermediates.AddCert(cert)
	}
	_, err := certs[0].Verify(options)
	if err == nil && len(c.opts.ServerURIs) > 0 {
		err = checkNames(certs[0], c.opts.ServerURIs)
	}
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return nil
}

// Files returns the files that are read, without duplicates.
func (c *Client) Files() []string { return given(c.opts.CAFile, c.opts.CertFile, c.opts.KeyFile) }
