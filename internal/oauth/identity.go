// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// factsOf is what the claims say about a caller.
func factsOf(i *issuer, s access.Subject, claims map[string]any) (access.Facts, *fault) {
	f := access.Facts{Source: access.SourceOAuth, Issuer: s.Issuer, Subject: s.Name, Claims: claims}
	for _, name := range []string{"client_id", "azp", "appid", "cid"} {
		if id, _ := claims[name].(string); id != "" {
			f.ClientID = id
			break
		}
	}
	for name, value := range map[string]any{"scope": claims["scope"], "scp": claims["scp"], "roles": claimAt(claims, i.opts.RolesClaim)} {
		scopes, ok := names(value, name != "roles")
		if !ok {
			return f, bad(BadClaims, "the token has malformed scopes or roles")
		}
		f.Scopes = append(f.Scopes, scopes...)
	}
	slices.Sort(f.Scopes)
	f.Scopes = slices.Compact(f.Scopes)
	return f, readGroups(&f, i.opts.GroupsClaim)
}

// readGroups reads the groups. Where there are too many for a token, Entra writes where to
// find them (_claim_names): then they are unknown.
func readGroups(f *access.Facts, claim string) *fault {
	if claim == "" {
		return nil
	}
	var ok bool
	if f.Groups, ok = names(claimAt(f.Claims, claim), false); !ok {
		return bad(BadClaims, "the token has malformed groups")
	}
	elsewhere, _ := f.Claims["_claim_names"].(map[string]any)
	if _, moved := elsewhere[claim]; moved || f.Claims["hasgroups"] == true {
		f.Groups, f.GroupsUnknown = nil, true
	}
	return nil
}

// NameOf returns the name of a caller: ISSUER#SUBJECT, in printable ASCII. No entry of a
// callers file can have it.
func NameOf(s access.Subject) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(s.Issuer)
	b.WriteByte('#')
	for i := range len(s.Name) {
		if c := s.Name[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// identify makes the identity of a token: that of the entry of the callers file that claims the
// subject, or one with the permissions of all OAuth callers.
func (v *Verifier) identify(e *verified) {
	e.above = v.opts.Book.Claimed(e.subject)
	grant, facts := v.opts.Grant, e.facts
	grant.Name = NameOf(e.subject)
	if e.above != nil {
		grant, facts.Entry = e.above.Grant(), true
		facts.Groups = append(slices.Clone(facts.Groups), e.above.Facts().Groups...)
	}
	e.who = access.NewLeased(grant, facts, e.lease, e.above)
}

// claimed returns the token with the entry of the callers file as it is now. Where that has
// changed, the token gets another identity, and the one before ends.
func (v *Verifier) claimed(e *verified, digest *access.Digest, now time.Time) *verified {
	if v.opts.Book.Claimed(e.subject) == e.above {
		return e
	}
	again := *e
	again.lease = e.lease.Renew()
	v.identify(&again)
	v.tokens.put(digest, &again, now)
	e.lease.End()
	return &again
}
