// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSOptions say whom to trust and who we are. The zero value trusts the
// system's roots and shows no certificate. There is no way to switch off
// verification.
type TLSOptions struct {
	// CAFile holds PEM certificates that replace the system's roots.
	CAFile string
	// CertFile and KeyFile hold the client's certificate chain and key, PEM; both
	// or neither.
	CertFile, KeyFile string
	// ServerName replaces the target's host in verification and SNI.
	ServerName string
}

// ErrTLSUnused is returned by New where TLS options come with a plain target.
var ErrTLSUnused = errors.New("TLS options given, but the target is not one with TLS (https, grpcs, connect+https, grpcweb+https)")

func (o TLSOptions) config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA file %s: no certificate in it", o.CAFile)
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
		return cfg, nil
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errors.New("client certificate and key: one is given without the other")
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("client certificate and key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
