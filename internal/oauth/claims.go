// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"math"
	"slices"
	"strings"
	"time"
)

// maxSubjectBytes bounds the subject of a token, which becomes the name of a caller.
const maxSubjectBytes = 1024

// maxNames bounds the groups and the scopes of a token.
const maxNames = 4096

// checkType checks the type of a token.
func checkType(typ string, strict bool) *fault {
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "at+jwt":
		return nil
	case "jwt", "":
		if !strict {
			return nil
		}
	}
	return bad(BadType, "the token is of a type that is not accepted")
}

// span is the time for which a token is valid, without leeway.
type span struct{ from, to time.Time }

// spanOf reads exp, nbf and iat. A missing exp is a zero time.
func spanOf(claims map[string]any) (span, *fault) {
	var s span
	var at [3]time.Time
	for i, name := range []string{"exp", "nbf", "iat"} {
		value, ok := claims[name]
		if !ok {
			continue
		}
		if at[i], ok = moment(value); !ok {
			return s, bad(BadClaims, "the token has a malformed "+name)
		}
	}
	s.to, s.from = at[0], at[1]
	if at[2].After(s.from) {
		s.from = at[2]
	}
	return s, nil
}

// moment is a NumericDate between the years 1970 and 9999.
func moment(value any) (time.Time, bool) {
	const most = 253402300799
	n, ok := value.(float64)
	if !ok || !(n > 0 && n <= most) {
		return time.Time{}, false
	}
	whole, part := math.Modf(n)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// check compares the span with the clock.
func (s span) check(now time.Time, leeway time.Duration) *fault {
	switch {
	case s.to.IsZero():
		return bad(BadClaims, "the token has no expiry")
	case !now.Before(s.to.Add(leeway)):
		return bad(Expired, "the token has expired")
	case s.from.After(now.Add(leeway)):
		return bad(Early, "the token is not valid yet")
	}
	return nil
}

// subjectOf reads the subject.
func subjectOf(claims map[string]any) (string, *fault) {
	sub, _ := claims["sub"].(string)
	switch {
	case sub == "":
		return "", bad(BadClaims, "the token has no subject")
	case len(sub) > maxSubjectBytes:
		return "", bad(BadClaims, "the subject of the token is too long")
	}
	return sub, nil
}

// checkAudience looks for one of the accepted audiences.
func checkAudience(claims map[string]any, resource string, others []string) *fault {
	found, ok := names(claims["aud"], false)
	if !ok {
		return bad(BadClaims, "the token has a malformed audience")
	}
	for _, aud := range found {
		if strings.TrimSuffix(aud, "/") == resource || slices.Contains(others, aud) {
			return nil
		}
	}
	return bad(BadAudience, "the token is for another resource")
}

// names reads a string or an array of strings; nothing for nil. A string is a list with spaces
// where split is set.
func names(value any, split bool) ([]string, bool) {
	switch v := value.(type) {
	case nil:
		return nil, true
	case string:
		if split {
			return strings.Fields(v), true
		}
		return []string{v}, true
	case []any:
		if len(v) > maxNames {
			return nil, false
		}
		out := make([]string, 0, len(v))
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			out = append(out, text)
		}
		return out, true
	}
	return nil, false
}

// claimAt finds a claim by its name, or else by a path with dots.
func claimAt(claims map[string]any, path string) any {
	if value, ok := claims[path]; ok || path == "" {
		return value
	}
	at := claims
	for {
		name, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			return at[name]
		}
		inner, ok := at[name].(map[string]any)
		if !ok {
			return nil
		}
		at, path = inner, rest
	}
}
