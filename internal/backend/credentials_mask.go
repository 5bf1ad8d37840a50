// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"
)

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
