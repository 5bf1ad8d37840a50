// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"net/url"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/protectedresource"
)

// MetadataURL returns the URL of the metadata of a resource: the well-known path goes between
// its host and its path.
func MetadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + protectedresource.Prefix + strings.TrimSuffix(u.EscapedPath(), "/")
}

// Refuse implements [access.Refuser].
func (v *Verifier) Refuse(why access.Reason, shown access.Credentials) *access.Refusal {
	r := &access.Refusal{Reason: why}
	var detail string
	switch why {
	case access.Malformed:
		r.Invalid, detail = true, `error="invalid_request"`
		r.Text = "send one Authorization header, and no token in the query: Bearer TOKEN, or DPoP TOKEN with one proof"
	case access.Scheme:
		r.Text = "send Authorization: Bearer TOKEN with every request; other schemes are not accepted"
	case access.Missing:
	default:
		detail = `error="invalid_token"`
	}
	r.Challenge = v.bearer(detail)
	if shown.DPoP || v.opts.DPoP.Required {
		r.Challenge += ", " + v.dpop("")
	}
	return r
}

// refuseToken is the refusal of a token or of its proof. The scheme that was used carries the
// error.
func (v *Verifier) refuseToken(f *fault, shown *access.Credentials) *access.Refusal {
	r := &access.Refusal{Reason: f.reason, Text: f.text}
	code, describe := "invalid_token", `, error_description="`+f.text+`"`
	switch f.reason {
	case BadProof:
		code = "invalid_dpop_proof"
	case BadNonce:
		code, r.Nonce = "use_dpop_nonce", v.nonces.current(time.Now())
	}
	detail := `error="` + code + `"` + describe
	switch {
	case shown.DPoP:
		r.Challenge = v.bearer("") + ", " + v.dpop(detail)
	case f.reason == BadBinding || v.opts.DPoP.Required:
		r.Challenge = v.bearer(detail) + ", " + v.dpop("")
	default:
		r.Challenge = v.bearer(detail)
	}
	return r
}

// bearer is the challenge of RFC 6750 and RFC 9728.
func (v *Verifier) bearer(detail string) string {
	parts := []string{detail, `resource_metadata="` + v.metadata + `"`, ""}
	if v.opts.Scope != nil {
		if scope := v.opts.Scope(); scope != "" {
			parts[2] = `scope="` + scope + `"`
		}
	}
	return "Bearer " + join(parts)
}

// dpop is the challenge of RFC 9449.
func (v *Verifier) dpop(detail string) string {
	return "DPoP " + join([]string{detail, `algs="` + strings.Join(v.opts.Algorithms, " ") + `"`})
}

// join joins what is not empty.
func join(parts []string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
