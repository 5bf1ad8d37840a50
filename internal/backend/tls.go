// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// TLSOptions are the trusted CAs and the identity of the client. The zero value trusts
// the system's roots and sends no certificate. Verification cannot be disabled. The
// files are read when the client is made, and again by [Client.ReloadTLS].
type TLSOptions struct {
	// CAFile is a file with PEM certificates that replace the system's roots.
	CAFile string
	// CertFile and KeyFile are the client's certificate chain and private key in PEM. Set
	// both or neither.
	CertFile, KeyFile string
	// ServerName replaces the target's host in verification and SNI.
	ServerName string
	// ServerURIs are patterns of URI names (spiffe://...). The backend's certificate must
	// have a name that matches one of them, instead of its host name. "*" matches any
	// characters.
	ServerURIs []string
}

// isZero reports whether nothing is said.
func (o TLSOptions) isZero() bool {
	return o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" && o.ServerName == "" && len(o.ServerURIs) == 0
}

// ErrTLSUnused is returned by New for TLS options with a target without TLS.
var ErrTLSUnused = errors.New("TLS options given, but the target is not one with TLS (https, grpcs, connect+https, grpcweb+https)")

// files reads what the options name, for a target whose host is the default name.
func (o TLSOptions) files(target Target) (*tlsfiles.Client, error) {
	host, _, err := net.SplitHostPort(target.host) // ParseTarget joined them
	if err != nil {
		return nil, err
	}
	return tlsfiles.NewClient(tlsfiles.ClientOptions{
		CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile,
		ServerName: cmp.Or(o.ServerName, host), ServerURIs: o.ServerURIs,
	})
}

// watchRequests notes whether the server requests a client certificate. With TLS 1.3 our
// part of the handshake ends before the server has checked it, and some servers then close
// the connection without an alert.
func (c *Client) watchRequests() {
	verify, answer := c.tls.VerifyConnection, c.tls.GetClientCertificate
	c.tls.VerifyConnection = func(state tls.ConnectionState) error { // runs before the other, in each handshake
		c.asked.Store(false)
		return verify(state)
	}
	c.tls.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked.Store(true)
		return answer(r)
	}
}

// TLSFiles returns the files in the TLS options, or none.
func (c *Client) TLSFiles() []string {
	if c.files == nil {
		return nil
	}
	return c.files.Files()
}

// ReloadTLS reloads the files of the TLS options for new connections. After an error the
// previous options stay in use.
func (c *Client) ReloadTLS() error {
	if c.files == nil {
		return nil
	}
	return c.files.Reload()
}
