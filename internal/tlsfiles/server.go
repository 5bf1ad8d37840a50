// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"slices"
	"sync/atomic"
	"time"
)

// ServerOptions configure our identity and the accepted callers.
type ServerOptions struct {
	// CertFile and KeyFile hold our certificate, with its intermediates, and its private key.
	CertFile, KeyFile string
	// ClientCAFile holds the CAs that must have signed a caller's certificate; "" asks
	// for no certificate.
	ClientCAFile string
	// ClientURIs are patterns (see package glob) for URI names. The caller's certificate
	// must carry a match. If there are no patterns, any name is accepted, but there must
	// be one.
	ClientURIs []string
}

// Server is the server side. Make one with [NewServer].
type Server struct {
	opts    ServerOptions
	outer   *tls.Config
	current atomic.Pointer[tls.Config]
	refused atomic.Uint64
}

// NewServer reads the files and returns a Server.
func NewServer(o ServerOptions) (*Server, error) {
	s := &Server{opts: o}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	s.outer = s.current.Load().Clone()
	s.outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }
	return s, nil
}

// Reload reads the files again. On an error, the previous content stays in use.
func (s *Server) Reload() error {
	switch {
	case s.opts.CertFile == "", s.opts.KeyFile == "":
		return ErrHalfPair
	}
	pair, err := readPair(s.opts.CertFile, s.opts.KeyFile, time.Now())
	if err != nil {
		return err
	}
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{*pair},
	}
	if s.opts.ClientCAFile != "" {
		if cfg.ClientCAs, err = readPool(s.opts.ClientCAFile); err != nil {
			return err
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		cfg.VerifyConnection = s.verifyCaller
		// A resumed session would bring back a verdict by authorities that may have
		// gone since. Connections are few and long, so a full handshake is cheap.
		cfg.SessionTicketsDisabled = true
	}
	s.current.Store(cfg)
	return nil
}

// verifyCaller lets a caller in whose certificate, which has been verified by
// its chain, carries a name that we know.
func (s *Server) verifyCaller(state tls.ConnectionState) error {
	err := checkNames(state.PeerCertificates[0], s.opts.ClientURIs)
	if err != nil {
		s.refused.Add(1)
	}
	return err
}

// Refused returns the number of handshakes that failed because of the name in the
// caller's certificate, although its chain was valid. It is 0 for a nil Server.
func (s *Server) Refused() uint64 {
	if s == nil {
		return 0
	}
	return s.refused.Load()
}

// Config returns the configuration for a listener. It is the same value for the life of the process.
func (s *Server) Config() *tls.Config { return s.outer }

// Files returns the files that are read, without duplicates.
func (s *Server) Files() []string { return given(s.opts.CertFile, s.opts.KeyFile, s.opts.ClientCAFile) }

// AsksCallers reports whether callers must present certificates.
func (s *Server) AsksCallers() bool { return s.opts.ClientCAFile != "" }

// Names returns the URI names that authenticated a connection's caller; none if no
// certificate was verified. A nil state is a connection without TLS.
func (s *Server) Names(state *tls.ConnectionState) []string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return names(state.PeerCertificates[0].URIs, s.opts.ClientURIs)
}

// Expires returns when our certificate expires.
func (s *Server) Expires() time.Time { return s.current.Load().Certificates[0].Leaf.NotAfter }

// given are the files that have names, each once.
func given(files ...string) []string {
	out := slices.DeleteFunc(files, func(f string) bool { return f == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
