// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"errors"
	"net"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// TLSOptions say whom we trust and who we are. The zero value trusts the
// system's roots and shows no certificate. There is no way to switch off
// verification. Files are read when the client is made, and again by
// [Client.ReloadTLS].
type TLSOptions struct {
	// CAFile holds PEM certificates that replace the system's roots.
	CAFile string
	// CertFile and KeyFile hold the client's certificate chain and key, PEM; both
	// or neither.
	CertFile, KeyFile string
	// ServerName replaces the target's host in verification and SNI.
	ServerName string
	// ServerURIs are patterns of URI names (spiffe://...) of which the backend's
	// certificate must carry one, in place of its host's name; "*" stands for any
	// characters.
	ServerURIs []string
}

// isZero reports whether nothing is said.
func (o TLSOptions) isZero() bool {
	return o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" && o.ServerName == "" && len(o.ServerURIs) == 0
}

// ErrTLSUnused is returned by New where TLS options come with a plain target.
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

// TLSFiles are the files that the TLS options name; none where there are none.
func (c *Client) TLSFiles() []string {
	if c.files == nil {
		return nil
	}
	return c.files.Files()
}

// ReloadTLS reads the files of the TLS options again, for connections that are
// made from now on. After an error what was in use stays in use.
func (c *Client) ReloadTLS() error {
	if c.files == nil {
		return nil
	}
	return c.files.Reload()
}
