// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// LoadCallers reads the callers file that access.tokens_file names and validates it
// against the rules of its message. No two callers may share a name, a token or a
// certificate.
//
// The error is an *Error with all faults, each with its line. It repeats nothing
// from the file, because misplaced text may be a token.
func LoadCallers(path string) (*configv1.Callers, error) {
	callers := &configv1.Callers{}
	d := newDraftOf(callers)
	d.kind, d.secret = "callers file", true
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(); err != nil {
			return nil, err
		}
		checkCredentials(d, "callers", callers.GetCallers(), "one caller may have several tokens")
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return callers, nil
}

// subjectsOf are the OAuth subjects of an entry; operators have none.
func subjectsOf(entry any) []*configv1.OAuthSubject {
	if c, ok := entry.(*configv1.Caller); ok {
		return c.GetOauth()
	}
	return nil
}

// credentialed is an entry of a file that says who somebody is.
type credentialed interface {
	GetName() string
	GetTokenSha256() []string
	GetCertificateUris() []string
}

// checkCredentials finds what would make it a matter of chance who somebody is. list is
// the name of the entries, several what to do instead of repeating a name.
func checkCredentials[E credentialed](d *draft, list string, entries []E, several string) {
	names, tokens, uris, subjects := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	one := func(taken map[string]string, value, path, what string) {
		if first, ok := taken[value]; ok {
			d.judge(path, "is "+what+" of "+first+" too; use a different one for each entry of "+list)
			return
		}
		taken[value] = parent(path)
	}
	for i, e := range entries {
		at := list + "[" + strconv.Itoa(i) + "]"
		if name := e.GetName(); name != "" {
			if first, ok := names[name]; ok {
				d.judge(at+".name", "is the name of "+first+" too; "+several)
			}
			names[name] = at
		}
		for n, digest := range e.GetTokenSha256() {
			one(tokens, digest, fmt.Sprintf("%s.token_sha256[%d]", at, n), "the token")
		}
		for n, uri := range e.GetCertificateUris() {
			one(uris, uri, fmt.Sprintf("%s.certificate_uris[%d]", at, n), "the certificate")
		}
		for n, s := range subjectsOf(e) {
			one(subjects, s.GetIssuer()+" "+s.GetSubject(), fmt.Sprintf("%s.oauth[%d]", at, n), "the OAuth subject")
		}
	}
}
