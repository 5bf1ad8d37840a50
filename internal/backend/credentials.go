// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"google.golang.org/protobuf/types/known/anypb"
)

// CredentialOptions are the headers that the client adds to every request: calls,
// probes, health checks and reflection. The values are secrets. No error, log line or
// String method of this package shows them. Errors from the backend that contain them
// are masked.
type CredentialOptions struct {
	// Headers are fixed headers by name.
	Headers map[string]string
	// HeaderFile is a file with more headers, one "name: value" per line. Empty lines and
	// lines that begin with "#" are ignored.
	HeaderFile string
	// TokenFile is a file with a token. The client sends it as "authorization: Scheme
	// TOKEN".
	TokenFile string
	// Scheme is the scheme of the token. "" means Bearer.
	Scheme string
	// AllowPlaintext permits secrets on a connection without TLS to a host other than
	// loopback.
	AllowPlaintext bool
}

// Bounds of the credentials. gRPC peers are advised to accept 8 KiB of metadata;
// a JWT with many claims takes more, and common servers accept 16 KiB.
const (
	maxCredentialBytes   = 16 << 10
	maxCredentialHeaders = 64
)

// defaultTokenScheme is the default scheme of a token.
const defaultTokenScheme = "Bearer"

// ErrPlaintextCredentials reports credentials that would cross a network unencrypted.
var ErrPlaintextCredentials = errors.New("credentials would cross the network without TLS: " +
	"use https:// or grpcs://, or allow that with --insecure-backend-credentials, if a mesh encrypts the connection")

// String returns a mask, so that formatted output never contains the values.
func (o CredentialOptions) String() string { return masked }

// GoString returns a mask for %#v.
func (o CredentialOptions) GoString() string { return masked }

// Check reads the files and returns an error if the credentials are not valid for a
// backend at target.
func (o CredentialOptions) Check(target Target) error {
	_, err := o.read(target)
	return err
}

// Sets reports whether the credentials have a header. What cannot be read has none.
func (o CredentialOptions) Sets(name string) bool {
	o.AllowPlaintext = true
	set, err := o.read(Target{})
	return err == nil && set.header.Get(name) != ""
}

// files are the files to watch.
func (o CredentialOptions) files() []string {
	return slices.DeleteFunc([]string{o.HeaderFile, o.TokenFile}, func(f string) bool { return f == "" })
}

// read makes the headers of one state of the files.
func (o CredentialOptions) read(target Target) (*credentialSet, error) {
	set := &credentialSet{header: http.Header{}}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		if err := set.add(name, o.Headers[name]); err != nil {
			return nil, err
		}
	}
	if err := set.addHeaderFile(o.HeaderFile); err != nil {
		return nil, fmt.Errorf("header file: %w", err)
	}
	if err := set.addTokenFile(o.TokenFile, cmp.Or(o.Scheme, defaultTokenScheme)); err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if !o.AllowPlaintext && !target.IsPrivate() && set.hasSecret() {
		return nil, ErrPlaintextCredentials
	}
	return set, nil
}

// IsPrivate reports whether what is sent is private to the target: by TLS, or on this machine.
func (t Target) IsPrivate() bool {
	if t.tls || t.socket != "" {
		return true
	}
	host, _, err := net.SplitHostPort(t.host) // ParseTarget joined them
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// credentials has the set in use, which a reload replaces. Nil has none.
type credentials struct {
	opts    CredentialOptions
	target  Target
	reload  sync.Mutex
	current atomic.Pointer[credentialSet]
}

// newCredentials reads the files. It returns nil where there are no credentials.
func newCredentials(o CredentialOptions, target Target) (*credentials, error) {
	if len(o.Headers) == 0 && len(o.files()) == 0 {
		return nil, nil //nolint:nilnil // nil is valid, and holds none
	}
	set, err := o.read(target)
	if err != nil {
		return nil, err
	}
	c := &credentials{opts: o, target: target}
	c.current.Store(set)
	return c, nil
}

// set is what is sent now; nil for nothing.
func (c *credentials) set() *credentialSet {
	if c == nil {
		return nil
	}
	return c.current.Load()
}

// CredentialFiles returns the files that the credentials come from.
func (c *Client) CredentialFiles() []string {
	if c.credentials == nil {
		return nil
	}
	return c.credentials.opts.files()
}

// HasCredentials reports whether requests carry the sidecar's credentials.
func (c *Client) HasCredentials() bool { return c.credentials != nil }

// ReloadCredentials reloads the files for new requests and reports whether anything
// changed. After an error the last valid credentials stay in use.
func (c *Client) ReloadCredentials() (changed bool, err error) {
	if c.credentials == nil {
		return false, nil
	}
	c.credentials.reload.Lock()
	defer c.credentials.reload.Unlock()
	set, err := c.credentials.opts.read(c.credentials.target)
	if err != nil {
		return false, err
	}
	old := c.credentials.current.Swap(set)
	return !maps.EqualFunc(old.header, set.header, slices.Equal), nil
}

// credentialSet is one state of the credentials. It is immutable once it is in
// use, and its header is shared by every request.
type credentialSet struct {
	header  http.Header
	size    int
	secrets []string // masked in what the backend says
}

// String returns a mask, so that formatted output never contains the values.
func (s *credentialSet) String() string { return masked }

// GoString returns a mask for %#v.
func (s *credentialSet) GoString() string { return masked }

// add takes one header. Its errors do not show the value.
func (s *credentialSet) add(name, value string) error {
	key := http.CanonicalHeaderKey(name)
	switch {
	case !validMetadataName(name):
		return fmt.Errorf("%q is not a header name: use letters, digits, dash, underscore and dot", clip(name))
	case isProtocolHeader(key) || strings.HasPrefix(key, "Content-"):
		return fmt.Errorf("%s is reserved by the protocol and cannot be set", clip(name))
	case value == "":
		return fmt.Errorf("%s has no value", clip(name))
	case !validMetadataValue(value):
		return fmt.Errorf("the value of %s is not printable ASCII, or has surrounding whitespace", clip(name))
	case s.header[key] != nil:
		return fmt.Errorf("%s is given twice", clip(name))
	case len(s.header) >= maxCredentialHeaders:
		return fmt.Errorf("more than %d headers", maxCredentialHeaders)
	}
	if strings.HasSuffix(key, "-Bin") {
		if _, err := decodedBinary(value); err != nil {
			return fmt.Errorf("the value of %s is not base64, as names that end in -bin require", clip(name))
		}
	}
	if s.size += len(key) + len(value); s.size > maxCredentialBytes {
		return fmt.Errorf("headers of more than %d bytes", maxCredentialBytes)
	}
	s.header[key] = []string{value}
	if isSecret(key, value) {
		s.secrets = append(s.secrets, secretPart(value))
	}
	return nil
}

// apply sets the headers of a request. Credentials win over a caller's header of
// the same name.
func (s *credentialSet) apply(h http.Header) {
	if s != nil {
		maps.Copy(h, s.header)
	}
}

// over returns the headers of a call with the credentials. It may change header,
// and what it returns must not be changed.
func (s *credentialSet) over(header http.Header) http.Header {
	switch {
	case s == nil:
		return header
	case len(header) == 0:
		return s.header
	}
	maps.Copy(header, s.header)
	return header
}

func (s *credentialSet) hasSecret() bool { return len(s.secrets) > 0 }

// maxCredentialFile bounds a file of credentials: the headers that may be sent,
// and as much again for comments.
const maxCredentialFile = 2 * maxCredentialBytes

// addHeaderFile reads "name: value" lines. Errors name the line, never its text:
// a token may stand where a name should.
func (s *credentialSet) addHeaderFile(path string) error {
	if path == "" {
		return nil
	}
	text, err := readCredentialFile(path)
	if err != nil {
		return err
	}
	number, found := 0, false
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !validMetadataName(name) {
			return fmt.Errorf("%s:%d: want a line such as \"x-tenant: VALUE\"", path, number)
		}
		if err := s.add(name, strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s: the file has no headers", path)
	}
	return nil
}

// addTokenFile reads a token. White space around it is ignored, because editors
// and shells end files with a newline.
func (s *credentialSet) addTokenFile(path, scheme string) error {
	if path == "" {
		return nil
	}
	text, err := readCredentialFile(path)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(text)
	switch {
	case token == "":
		return fmt.Errorf("%s: the file is empty", path)
	case strings.ContainsAny(token, "\r\n"):
		return fmt.Errorf("%s: the file has more than one line; want one token", path)
	case strings.ContainsAny(token, " \t"):
		return fmt.Errorf("%s: the token contains a space; to set the scheme, use backend.credentials.scheme", path)
	}
	if err := s.add("authorization", scheme+" "+token); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readCredentialFile reads a small text file.
func readCredentialFile(path string) (string, error) {
	raw, err := keys.ReadFile(path, maxCredentialFile)
	return string(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))), err // some editors begin a file with a byte order mark
}

// masked replaces a secret in a text.
const masked = "[redacted]"

// minMasked is the shortest value that is searched for. A shorter one ("1", "dev")
// occurs in texts by chance.
const minMasked = 6

// secretNames are parts of header names whose values are secret.
func secretNames() []string {
	return []string{"auth", "token", "secret", "password", "credential", "key", "jwt", "session", "cookie", "cert"}
}

// isSecret tells a credential from a fixed header such as "x-tenant: shop". What is
// as long as a key counts as one, whatever its name.
func isSecret(name, value string) bool {
	const looksRandom = 20
	name = strings.ToLower(name)
	for _, part := range secretNames() {
		if strings.Contains(name, part) {
			return true
		}
	}
	return len(value) >= looksRandom
}

// secretPart is a value without its scheme, which is public: "Bearer abc" gives "abc".
func secretPart(value string) string {
	if scheme, rest, ok := strings.Cut(value, " "); ok && len(rest) >= minMasked && !strings.Contains(scheme, ":") {
		return rest
	}
	return value
}

// mask hides the credentials in a text that a backend sent.
func (s *credentialSet) mask(text string) string {
	if s == nil {
		return text
	}
	for _, secret := range s.secrets {
		if len(secret) >= minMasked {
			text = strings.ReplaceAll(text, secret, masked)
		}
	}
	return text
}

// maskBytes hides the credentials in an encoded message, byte for byte, so that it
// can still be decoded. It does not change raw.
func (s *credentialSet) maskBytes(raw []byte) []byte {
	for _, secret := range s.secrets {
		if len(secret) >= minMasked && bytes.Contains(raw, []byte(secret)) {
			raw = bytes.ReplaceAll(raw, []byte(secret), bytes.Repeat([]byte("*"), len(secret)))
		}
	}
	return raw
}

// maskError hides the credentials in what a backend says about a failure.
func (s *credentialSet) maskError(e *Error) {
	if s == nil || !s.hasSecret() {
		return
	}
	if text := s.mask(e.Message); text != e.Message {
		e.Message = text
	}
	if e.cause != nil && s.mask(e.cause.Error()) != e.cause.Error() {
		e.cause = errors.New(s.mask(e.cause.Error()))
	}
	for i, d := range e.Details {
		if value := s.maskBytes(d.GetValue()); !bytes.Equal(value, d.GetValue()) {
			e.Details[i] = &anypb.Any{TypeUrl: d.GetTypeUrl(), Value: value}
		}
	}
	for _, metadata := range []http.Header{e.Header, e.Trailer} {
		for _, values := range metadata {
			for i, value := range values {
				values[i] = s.mask(value)
			}
		}
	}
}

// Mask hides the client's credentials in an error that another package made from a
// backend's response, as reflection does. It keeps the code of a Connect error.
func (c *Client) Mask(err error) error {
	s := c.credentials.set()
	if err == nil || s == nil {
		return err
	}
	text := s.mask(err.Error())
	if text == err.Error() {
		return err
	}
	var rpc *connect.Error
	if errors.As(err, &rpc) {
		return connect.NewError(rpc.Code(), errors.New(s.mask(rpc.Message())))
	}
	return errors.New(text)
}
