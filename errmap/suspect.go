// SPDX-License-Identifier: Apache-2.0

package errmap

import "strings"

// features are what a text holds of what the patterns of secrets and stack traces cannot match without. Most messages hold
// next to none of it, so most patterns are never run.
type features uint32

const (
	hasPEM features = 1 << iota
	hasHeader
	hasScheme
	hasURL
	hasJWT
	hasKey
	hasSecret
	hasPair  // = or :
	hasBlank // space or tab
	hasDash
	hasAt // @
	hasParen
	hasSlash
	hasGoroutine
	hasGoLine
	hasTraceback
	hasFile
	hasAtWord // the word "at"
	hasLine
	hasRuby
	hasHex
	hasStack

	hasAll = hasStack<<1 - 1
)

// all reports whether f has everything that needed names.
func (f features) all(needed features) bool { return f&needed == needed }

// keyword is a text that a pattern wants. A folded one is written in lower case and found in any.
type keyword struct {
	text string
	has  features
	fold bool
}

// keywordList is every keyword of every pattern in redact.go and trace.go. A pattern that is added there has its keywords
// here, and FuzzNoSecretIsMissed looks for the one that was forgotten.
func keywordList() []keyword {
	exact := func(has features, texts ...string) (list []keyword) {
		for _, text := range texts {
			list = append(list, keyword{text: text, has: has})
		}
		return list
	}
	folded := func(has features, texts ...string) (list []keyword) {
		for _, text := range texts {
			list = append(list, keyword{text: text, has: has, fold: true})
		}
		return list
	}
	var list []keyword
	for _, more := range [][]keyword{
		exact(hasPEM, "-----BEGIN "),
		exact(hasURL, "://"),
		exact(hasJWT, "eyJ"),
		exact(hasKey, "AKIA", "ASIA", "AGPA", "AIDA", "AIPA", "ANPA", "ANVA", "AROA", "ABIA", "ACCA", "AIza", "xox",
			"gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "rk-", "rk_", "sk-", "sk_"),
		exact(hasPair, "=", ":"),
		exact(hasBlank, " ", "\t"),
		exact(hasDash, "-"),
		exact(hasAt, "@"),
		exact(hasParen, "("),
		exact(hasSlash, "/"),
		exact(hasGoroutine, "goroutine "),
		exact(hasGoLine, ".go:"),
		exact(hasTraceback, "Traceback ("),
		exact(hasFile, `File "`),
		exact(hasAtWord, "at "),
		exact(hasLine, ":line "),
		exact(hasRuby, ".rb:"),
		exact(hasHex, "0x"),
		folded(hasHeader|hasSecret, "authorization"),
		folded(hasHeader, "cookie"),
		folded(hasScheme, "bearer", "basic", "negotiate"),
		folded(hasSecret, "passwd", "password", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "api key",
			"accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key",
			"signingkey", "signing_key", "signing-key", "encryptionkey", "encryption_key", "encryption-key",
			"accountkey", "account_key", "account-key", "credential", "sessionid", "session_id", "session-id", "signature"),
		folded(hasStack, "stacktrace", "stack trace", "stack backtrace", "call stack", "backtrace"),
	} {
		list = append(list, more...)
	}
	return list
}

// keywordIndex finds the keywords that may begin at a byte. Built once, not assigned to.
type keywordIndex struct {
	// next has a bit for each second byte, by its lowest five bits, which upper and lower case share.
	next [256]uint32
	// by is the keywords of a first byte, the longest of one byte left out.
	by [256][]keyword
	// single is what one byte alone says.
	single [256]features
}

var keywordsByByte = indexKeywords(keywordList())

func indexKeywords(list []keyword) *keywordIndex {
	x := new(keywordIndex)
	for _, k := range list {
		first := k.text[0]
		if len(k.text) == 1 {
			x.single[first] |= k.has
			continue
		}
		x.add(first, k)
		if upper := first - 'a' + 'A'; k.fold && 'a' <= first && first <= 'z' {
			x.add(upper, k)
		}
	}
	return x
}

func (x *keywordIndex) add(first byte, k keyword) {
	x.by[first] = append(x.by[first], k)
	x.next[first] |= 1 << (k.text[1] & 31)
}

// featuresOf reads a text once.
func featuresOf(s string) features {
	x := keywordsByByte
	var found features
	high := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		found |= x.single[c]
		high = high || c >= 0x80
		if i+1 < len(s) && x.next[c]&(1<<(s[i+1]&31)) != 0 {
			found |= x.at(s[i:])
		}
	}
	if high && strings.ContainsAny(s, "\u017F\u212A") {
		return hasAll // ſ and the Kelvin sign are s and k to a pattern that ignores case
	}
	return found
}

// at is what the keywords at the start of a text say.
func (x *keywordIndex) at(s string) features {
	var found features
	for _, k := range x.by[s[0]] {
		if k.begins(s) {
			found |= k.has
		}
	}
	return found
}

func (k keyword) begins(s string) bool {
	if !k.fold {
		return strings.HasPrefix(s, k.text)
	}
	if len(s) < len(k.text) {
		return false
	}
	for i := range len(k.text) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != k.text[i] {
			return false
		}
	}
	return true
}
