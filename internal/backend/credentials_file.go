// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

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
	raw, err := tlsfiles.Read(path, maxCredentialFile)
	return string(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))), err // some editors begin a file with a byte order mark
}
