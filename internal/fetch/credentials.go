// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

const (
	// maxCredentialsBytes bounds the file of credentials.
	maxCredentialsBytes = 64 << 10
	// maxCredentialLines bounds the servers in it.
	maxCredentialLines = 256
)

// hostCredentials are the values of the header Authorization by the servers ("https://host:443") that get them. They are secrets:
// nothing of them is put in an error.
type hostCredentials map[string]string

// hostCredentials reads the file, as it is now.
func (o Options) hostCredentials() (hostCredentials, error) {
	if o.CredentialsFile == "" {
		return nil, nil
	}
	raw, err := tlsfiles.Read(o.CredentialsFile, maxCredentialsBytes)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	out, number := hostCredentials{}, 0
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\ufeff")) { // some editors begin a file with a byte order mark
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := out.add(line); err != nil {
			return nil, fmt.Errorf("credentials: %s:%d: %w", o.CredentialsFile, number, err)
		}
	}
	return out, nil
}

// add reads a line. A secret may be in any place of a line that is wrong, so that errors repeat none.
func (h hostCredentials) add(line string) error {
	host, rest, _ := cutSpace(line)
	scheme, secret, isWhole := cutSpace(rest)
	server, err := url.Parse("https://" + host)
	if !isWhole || err != nil || server.Hostname() == "" || server.Host != host {
		return errors.New("want a line such as \"files.example.com bearer TOKEN\" or \"files.example.com:8443 basic USER:PASSWORD\"")
	}
	for _, c := range []byte(secret) {
		if c < ' ' || c == 0x7f {
			return errors.New("the secret has a control character")
		}
	}
	var value string
	switch strings.ToLower(scheme) {
	case "bearer":
		if strings.ContainsAny(secret, " \t") {
			return errors.New("the token contains a space")
		}
		value = "Bearer " + secret
	case "basic":
		if !strings.Contains(secret, ":") {
			return errors.New("want USER:PASSWORD after basic")
		}
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	default:
		return errors.New("the scheme must be bearer or basic")
	}
	key := origin(server)
	if _, isThere := h[key]; isThere {
		return errors.New("the host has credentials on an earlier line")
	}
	if len(h) == maxCredentialLines {
		return fmt.Errorf("more than %d hosts", maxCredentialLines)
	}
	h[key] = value
	return nil
}

// of is what a server gets, "" for nothing. A server on loopback may be without TLS.
func (h hostCredentials) of(u *url.URL) string {
	if u.Scheme == "http" && isSecure(u) {
		local := *u
		local.Scheme = "https"
		u = &local
	}
	return h[origin(u)]
}

// cutSpace cuts a text at the first white space.
func cutSpace(text string) (before, after string, isCut bool) {
	at := strings.IndexAny(text, " \t")
	if at < 0 {
		return text, "", false
	}
	return text[:at], strings.TrimLeft(text[at:], " \t"), true
}
