// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"slices"
	"sync/atomic"
	"time"
)

// ServerOptions say what callers see of us, and whom we let in.
type ServerOptions struct {
	// CertFile and KeyFile hold our certificate, with what signed it, and its key.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities that must have signed a caller's
	// certificate; "" asks for none.
	ClientCAFile string
	// ClientURIs are patterns (see package glob) of URI names of which the
	// caller's certificate must carry one. Where there are none any name will do,
	// but one there must be.
	ClientURIs []string
}

// Server is the side that is called. Make one with [NewServer].
type Server struct {
	opts    ServerOptions
	outer   *tls.Config
	current atomic.Pointer[tls.Config]
	refused atomic.Uint64
}

// NewServer reads the files.
func NewServer(o ServerOptions) (*Server, error) {
	s := &Server{opts: o}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	s.outer = s.current.Load().Clone()
	s.outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }
	return s, nil
}

// Reload reads the files again. After an error what was in use stays in use.
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

// Refused is how many handshakes failed because of the name in the caller's
// certificate, whose chain was good. A nil Server refuses none.
func (s *Server) Refused() uint64 {
	if s == nil {
		return 0
	}
	return s.refused.Load()
}

// Config is for a listener. It is one value for the life of the process.
func (s *Server) Config() *tls.Config { return s.outer }

// Files are those that are read, each once.
func (s *Server) Files() []string { return given(s.opts.CertFile, s.opts.KeyFile, s.opts.ClientCAFile) }

// AsksCallers reports whether callers have to show certificates.
func (s *Server) AsksCallers() bool { return s.opts.ClientCAFile != "" }

// Names are the URI names that a connection's caller was let in with; none where
// no certificate was verified. A nil state is a connection without TLS.
func (s *Server) Names(state *tls.ConnectionState) []string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return names(state.PeerCertificates[0].URIs, s.opts.ClientURIs)
}

// Expires is when our certificate runs out.
func (s *Server) Expires() time.Time { return s.current.Load().Certificates[0].Leaf.NotAfter }

// given are the files that have names, each once.
func given(files ...string) []string {
	out := slices.DeleteFunc(files, func(f string) bool { return f == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
