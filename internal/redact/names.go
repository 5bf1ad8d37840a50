// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"strings"
	"unicode/utf8"
)

// DefaultNames returns the names of members whose values are secret wherever they
// appear. Each name covers all its spellings.
func DefaultNames() []string {
	return []string{
		"password", "passwd", "pwd", "passphrase", "passcode", "pin",
		"secret", "client_secret", "shared_secret", "secret_key", "signing_key", "encryption_key", "private_key",
		"token", "access_token", "refresh_token", "id_token", "auth_token", "bearer_token", "session_token", "csrf_token",
		"api_key", "x_api_key", "access_key", "secret_access_key", "account_key", "api_token",
		"authorization", "proxy_authorization", "cookie", "set_cookie", "session_id",
		"credential", "credentials", "auth", "otp", "signature",
	}
}

// Names is a set of names of members whose values are secret. Each is a whole name and
// covers all spellings: api_key also means apiKey and API-Key.
type Names map[string]struct{}

// NewNames returns the set of the names in a list.
func NewNames(list []string) Names {
	set := make(Names, len(list))
	for _, name := range list {
		if name = fold(name); name != "" {
			set[name] = struct{}{}
		}
	}
	return set
}

// has reports whether a decoded name is in the set, in any spelling.
func (n Names) has(name []byte) bool {
	var room [64]byte
	folded := room[:0]
	for _, c := range name {
		switch {
		case c >= utf8.RuneSelf:
			_, ok := n[fold(string(name))]
			return ok
		case c >= 'A' && c <= 'Z':
			folded = append(folded, c+'a'-'A')
		case !isSeparator(rune(c)):
			folded = append(folded, c)
		}
	}
	_, ok := n[string(folded)]
	return ok
}

// fold takes away what spellings of one name differ in: letter case and
// separators. Upper case comes first, because some letters share it only (the
// long s, the Kelvin sign).
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if isSeparator(r) {
			return -1
		}
		return r
	}, strings.ToLower(strings.ToUpper(name)))
}

func isSeparator(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' }
