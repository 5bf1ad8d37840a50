// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
)

// ServerFiles configure our identity and the accepted callers, as the messages of the configuration do.
type ServerFiles interface {
	// GetCertFile and GetKeyFile hold our certificate, with its intermediates, and its private key.
	GetCertFile() string
	GetKeyFile() string
	// GetClientCaFile holds the CAs that must have signed a caller's certificate; "" asks
	// for no certificate.
	GetClientCaFile() string
	// GetClientUris are patterns (see package glob) for URI names. The caller's certificate
	// must carry a match. If there are no patterns, any name is accepted, but there must
	// be one.
	GetClientUris() []string
}

// Server is the server side. Make one with [NewServer].
type Server struct {
	files   ServerFiles
	outer   *tls.Config
	current atomic.Pointer[tls.Config]
	refused atomic.Uint64
}

// NewServer reads the files and returns a Server.
func NewServer(files ServerFiles) (*Server, error) {
	s := &Server{files: files}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	s.outer = s.current.Load().Clone()
	s.outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }
	return s, nil
}

// Reload reads the files again. On an error, the previous content stays in use.
func (s *Server) Reload() error {
	if s.files.GetCertFile() == "" || s.files.GetKeyFile() == "" {
		return errHalfPair
	}
	pair, err := readPair(s.files.GetCertFile(), s.files.GetKeyFile(), time.Now())
	if err != nil {
		return err
	}
	cfg := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{*pair},
	}
	if s.files.GetClientCaFile() != "" {
		if cfg.ClientCAs, err = readPool(s.files.GetClientCaFile()); err != nil {
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
	err := checkNames(state.PeerCertificates[0], s.files.GetClientUris())
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
func (s *Server) Files() []string {
	return given(s.files.GetCertFile(), s.files.GetKeyFile(), s.files.GetClientCaFile())
}

// AsksCallers reports whether callers must present certificates.
func (s *Server) AsksCallers() bool { return s.files.GetClientCaFile() != "" }

// Names returns the URI names that authenticated a connection's caller; none if no
// certificate was verified. A nil state is a connection without TLS.
func (s *Server) Names(state *tls.ConnectionState) []string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return names(state.PeerCertificates[0].URIs, s.files.GetClientUris())
}

// Expires returns when our certificate expires.
func (s *Server) Expires() time.Time { return s.current.Load().Certificates[0].Leaf.NotAfter }

// given are the files that have names, each once.
func given(files ...string) []string {
	out := slices.DeleteFunc(files, func(f string) bool { return f == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

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
	files, err := c.opts.read()
	if err == nil {
		c.current.Store(files)
	}
	return err
}

func (o ClientOptions) read() (*clientFiles, error) {
	files := &clientFiles{}
	var err error
	if o.CAFile != "" {
		if files.roots, err = readPool(o.CAFile); err != nil {
			return nil, err
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errHalfPair
	default:
		if files.pair, err = readPair(o.CertFile, o.KeyFile, time.Now()); err != nil {
			return nil, err
		}
	}
	return files, nil
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

// Expires returns when our certificate ends, and false without one.
func (c *Client) Expires() (time.Time, bool) {
	pair := c.current.Load().pair
	if pair == nil {
		return time.Time{}, false
	}
	return pair.Leaf.NotAfter, true
}

// Files returns the files that are read, without duplicates.
func (c *Client) Files() []string { return given(c.opts.CAFile, c.opts.CertFile, c.opts.KeyFile) }

// ReadClient reads the files once, for a dialer that knows many servers and sets the
// name of each itself. It uses the CAs, the certificate and the key of the options; each
// may be empty.
func ReadClient(o ClientOptions) (*tls.Config, error) {
	files, err := o.read()
	if err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: files.roots}
	if files.pair != nil {
		out.Certificates = []tls.Certificate{*files.pair}
	}
	return out, nil
}

// maxFileBytes bounds one file: a bundle of all public authorities has about
// 250 KB.
const maxFileBytes = 1 << 20

// errHalfPair is the error of a certificate without a key, or a key without a
// certificate.
var errHalfPair = errors.New("certificate and key must be set together")

func read(path string) ([]byte, error) { return ReadFile(path, maxFileBytes) }

// ReadFile reads a whole file of at most this many bytes. A file that is not regular is refused:
// to open a pipe waits for a writer, and some devices have no end. Errors name the path and
// show nothing of the contents.
func ReadFile(path string, most int) ([]byte, error) {
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

const (
	spiffeScheme = "spiffe"
	// maxSPIFFEID and maxTrustDomain are the lengths of the SPIFFE ID specification,
	// section 2.3.
	maxSPIFFEID    = 2048
	maxTrustDomain = 255
)

// errSVID is in the chain of every error about a SPIFFE certificate that breaks
// its specification.
var errSVID = errors.New("not a valid SPIFFE certificate")

// checkSVID refuses a leaf certificate with a SPIFFE ID that the X.509-SVID
// specification tells validators to reject (section 5.2), or whose ID the SPIFFE ID
// specification does not allow (sections 2.1 to 2.3). Certificates without a SPIFFE
// ID pass: other URI names have no such rules.
func checkSVID(leaf *x509.Certificate) error {
	id := (*url.URL)(nil)
	for _, u := range leaf.URIs {
		if u.Scheme == spiffeScheme { // the parser has lowered its case
			id = u
		}
	}
	switch {
	case id == nil:
		return nil
	case len(leaf.URIs) > 1:
		// With two names, one could be checked here and the other believed elsewhere.
		return fmt.Errorf("%w: it has %d URI names, want exactly one", errSVID, len(leaf.URIs))
	case leaf.IsCA, leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return fmt.Errorf("%w: a signing certificate must not be used for authentication", errSVID)
	}
	if fault := spiffeIDFault(id); fault != "" {
		return fmt.Errorf("%w: SPIFFE ID %.256q: %s", errSVID, id.String(), fault)
	}
	return nil
}

// spiffeIDFault says what is wrong with the SPIFFE ID of a leaf certificate; "" for
// a valid one.
func spiffeIDFault(id *url.URL) string {
	switch {
	case len(id.String()) > maxSPIFFEID:
		return fmt.Sprintf("longer than %d bytes", maxSPIFFEID)
	case id.Opaque != "", id.Host == "":
		return "no trust domain"
	case id.User != nil:
		return "user information is not allowed"
	case id.RawQuery != "", id.ForceQuery:
		return "a query is not allowed"
	case id.Fragment != "", id.RawFragment != "":
		return "a fragment is not allowed"
	case len(id.Host) > maxTrustDomain:
		return fmt.Sprintf("a trust domain longer than %d bytes", maxTrustDomain)
	case strings.ContainsFunc(id.Host, func(r rune) bool { return !isSPIFFEChar(r) || 'A' <= r && r <= 'Z' }):
		return "the trust domain may have lower-case letters, digits, dots, dashes and underscores only"
	}
	path, ok := strings.CutPrefix(id.EscapedPath(), "/")
	if !ok || path == "" {
		return "no path"
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			return "an empty path segment"
		case segment == ".", segment == "..":
			return "a dot segment in the path"
		case strings.ContainsFunc(segment, func(r rune) bool { return !isSPIFFEChar(r) }):
			return "a path segment may have letters, digits, dots, dashes and underscores only"
		}
	}
	return ""
}

// isSPIFFEChar holds for what the path of a SPIFFE ID is made of.
func isSPIFFEChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}
