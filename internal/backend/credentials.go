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
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"google.golang.org/protobuf/types/known/anypb"
)

// Bounds of the credentials. gRPC peers are advised to accept 8 KiB of metadata;
// a JWT with many claims takes more, and common servers accept 16 KiB.
const (
	maxCredentialBytes   = 16 << 10
	maxCredentialHeaders = 64
)

// ErrPlaintextCredentials reports credentials that would cross a network unencrypted.
var ErrPlaintextCredentials = errors.New("credentials would cross the network without TLS: " +
	"use https:// or grpcs://, or allow that with --insecure-backend-credentials, if a mesh encrypts the connection")

// SetsHeader reports whether the credentials have a header. What cannot be read has none.
func SetsHeader(b *configv1.Backend, name string) bool {
	set, err := readCredentials(b, Target{tls: true})
	return err == nil && set.header.Get(name) != ""
}

// credentialFiles are the files to watch.
func credentialFiles(b *configv1.Backend) []string {
	return slices.DeleteFunc([]string{b.GetMetadata().GetStaticFile(), b.GetCredentials().GetTokenFile()}, func(f string) bool { return f == "" })
}

// readCredentials makes the headers of one state of the files: the fixed ones, those of the file with more of them, and the
// token. They are secrets. No error, log line or String method of this package shows them, and errors from the backend that
// contain them are masked.
func readCredentials(b *configv1.Backend, target Target) (*credentialSet, error) {
	set := &credentialSet{header: http.Header{}}
	fixed, token := b.GetMetadata().GetStatic(), b.GetCredentials()
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		if err := set.add(name, fixed[name]); err != nil {
			return nil, err
		}
	}
	if err := set.addHeaderFile(b.GetMetadata().GetStaticFile()); err != nil {
		return nil, fmt.Errorf("header file: %w", err)
	}
	if err := set.addTokenFile(token.GetTokenFile(), cmp.Or(token.GetScheme(), defaults.BackendCredentialsScheme)); err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	if !token.GetAllowPlaintext() && !target.IsPrivate() && set.hasSecret() {
		return nil, ErrPlaintextCredentials
	}
	return set, nil
}

// CredentialPart is one of the settings that make the credentials, as if it were the only one, and to be sent anywhere.
type CredentialPart struct {
	Path string
	Of   *configv1.Backend
}

// CredentialParts are the credentials of a configuration one by one.
func CredentialParts(b *configv1.Backend) []CredentialPart {
	m, c := b.GetMetadata(), &configv1.BackendCredentials{AllowPlaintext: true}
	token := &configv1.BackendCredentials{TokenFile: b.GetCredentials().GetTokenFile(), Scheme: new(b.GetCredentials().GetScheme()), AllowPlaintext: true}
	return []CredentialPart{
		{"backend.metadata.static", &configv1.Backend{Metadata: &configv1.Metadata{Static: m.GetStatic()}, Credentials: c}},
		{"backend.metadata.static_file", &configv1.Backend{Metadata: &configv1.Metadata{StaticFile: m.GetStaticFile()}, Credentials: c}},
		{"backend.credentials.token_file", &configv1.Backend{Credentials: token}},
	}
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
	config  *configv1.Backend
	target  Target
	reload  sync.Mutex
	current atomic.Pointer[credentialSet]
}

// newCredentials reads the files. It returns nil where there are no credentials.
func newCredentials(b *configv1.Backend, target Target) (*credentials, error) {
	if len(b.GetMetadata().GetStatic()) == 0 && len(credentialFiles(b)) == 0 {
		return nil, nil //nolint:nilnil // nil is valid, and holds none
	}
	set, err := readCredentials(b, target)
	if err != nil {
		return nil, err
	}
	c := &credentials{config: b, target: target}
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
	return credentialFiles(c.credentials.config)
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
	set, err := readCredentials(c.credentials.config, c.credentials.target)
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
