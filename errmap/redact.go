// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/base64"
	"regexp"
	"strings"
	"unicode"
)

const (
	// maxMessageBytes bounds a message: about a page of text, and small enough for a gRPC trailer, which many proxies
	// limit to 8 KiB.
	maxMessageBytes = 2048
	// redactWindow is how much of a text is looked at. What lies behind could only be shown if redaction took away
	// six kilobytes before it.
	redactWindow = 4 * maxMessageBytes
	// redactRounds bounds the search for a text that another redaction would leave as it is. One round is the rule; a
	// cut can make a second one necessary.
	redactRounds = 4

	redacted   = "[redacted]"
	urlSchemes = `[A-Za-z][A-Za-z0-9+.\-]{1,31}://`
)

// The patterns of a secret. RE2 takes time linear in the text, whatever the text. They are compiled once and not assigned to.
var (
	pemBlock = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{1,64}-----.*?(?:-----END [A-Z0-9 ]{1,64}-----|$)`)
	jwt      = regexp.MustCompile(`\beyJ[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*){0,3}`)
	// Key ids with a prefix of their own: AWS, GitHub, Slack, Google, Stripe and the sk- family.
	knownKey = regexp.MustCompile(`\b(?:(?:AKIA|ASIA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA|ABIA|ACCA)[A-Z0-9]{12,}` +
		`|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|xox[a-z]-[A-Za-z0-9\-]{8,}` +
		`|AIza[A-Za-z0-9_\-]{30,}|[rs]k[-_][A-Za-z0-9_\-]{16,})`)
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)([ \t]+)([A-Za-z0-9._~+/\-]+=*)`)
	// Everything between :// and the last @ before the path. The second form is for a password with a slash in it; it
	// wants a character in the password's first part that a port cannot have.
	urlUser  = regexp.MustCompile(`(` + urlSchemes + `)[^\s/?#"'<>]*@`)
	urlSlash = regexp.MustCompile(`(` + urlSchemes + `)[^\s/:@"'<>]*:[0-9]*[^\s/@0-9"'<>][^\s@"'<>]*@`)
	secret   = regexp.MustCompile(`(?i)([\w.\-]*(?:` + secretNames + `)[\w.\-]*\\*["']?)([ \t]*(?:=>|[=:])[ \t]*)` + secretValue)
	// A command line's --password VALUE. A dash within a word begins no flag: "no Mcp-Session-Id was sent" is prose.
	flagged = regexp.MustCompile(`(?i)((?:^|[^\w\-])--?[\w\-]*(?:` + secretNames + `)[\w\-]*[ \t]+)([^\s=:\-][^\s]*)`)
	// Authorization and cookies hold several words: to the end of the line.
	header = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?[ \t]*[=:][ \t]*)([^\n]+)`)
)

const secretNames = `passw(?:or)?d|passphrase|\bpwd|secret|token|api[_\- ]?key|access[_\-]?key|private[_\-]?key|` +
	`signing[_\-]?key|encryption[_\-]?key|account[_\-]?key|credentials?\b|authorization|session[_\-]?id|signature`

// secretValue is a quoted string (also one inside of a quoted string), or everything up to a separator.
//
//nolint:gosec // a pattern for secrets, not one
const secretValue = `("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\\+"[^"\\\n]*\\*"?|[^\s,;&"']+)`

// safeText is a text that may leave: one that Redact returned.
type safeText string

// redaction is a message and its redacted text. It holds for that message alone, because a program may set Error.Message
// at any time.
type redaction struct {
	of   string
	text safeText
}

// redact redacts a message.
func redact(message string) redaction { return redaction{of: message, text: safeText(Redact(message))} }

// settled is the redaction of a text that was redacted before: it stays as it is.
func settled(text safeText) redaction { return redaction{of: string(text), text: text} }

// redaction is that of the error's message: the one it has, or a new one.
func (e *Error) redaction() redaction {
	if e.safe.of == e.Message {
		return e.safe
	}
	return redact(e.Message)
}

// Redact makes a message from outside safe to send: valid UTF-8 without control characters other than newline and tab,
// without text that looks like a secret or a stack trace, and at most 2,048 bytes. It is idempotent.
//
// When in doubt, it removes text. The exception is prose after a word like "token:", because validation messages look
// like that.
func Redact(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > redactWindow {
		s = s[:redactWindow]
	}
	for range redactRounds {
		next := truncate(redactSecrets(clean(s)), maxMessageBytes)
		if next == s {
			return s
		}
		s = next
	}
	if truncate(redactSecrets(clean(s)), maxMessageBytes) == s {
		return s
	}
	return redacted // a text that does not settle is not worth the risk
}

// clean replaces invalid UTF-8 and removes control characters other than newline and tab.
func clean(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// isPlain reports whether a text is ASCII that clean leaves as it is, as most messages are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7F || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// cleanLine is clean for a name: line breaks and tabs are spaces.
func cleanLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, clean(s))
}

// redactSecrets takes the trace off and then each kind of secret; the widest pattern goes first. A pattern is tried only
// where the text holds what every match of it holds. What a replacement leaves holds nothing that was not there before:
// "[redacted]" begins, ends and is within no keyword.
func redactSecrets(s string) string {
	has := featuresOf(s)
	if at := traceStart(s, has); at >= 0 {
		s = strings.TrimSpace(strings.TrimRight(s[:at], " \t\n") + " " + traceGone)
	}
	if has.all(hasPEM) {
		s = pemBlock.ReplaceAllString(s, redacted)
	}
	if has.all(hasHeader | hasPair) {
		s = header.ReplaceAllStringFunc(s, redactHeader)
	}
	if has.all(hasScheme | hasBlank) {
		s = scheme.ReplaceAllStringFunc(s, redactScheme)
	}
	if has.all(hasURL | hasAt) {
		s = urlUser.ReplaceAllString(s, "${1}"+redacted+"@")
		s = urlSlash.ReplaceAllString(s, "${1}"+redacted+"@")
	}
	if has.all(hasJWT) {
		s = jwt.ReplaceAllString(s, redacted)
	}
	if has.all(hasKey) {
		s = knownKey.ReplaceAllString(s, redacted)
	}
	if has.all(hasSecret | hasPair) {
		s = redactPairs(s)
	}
	if has.all(hasSecret | hasDash) {
		s = flagged.ReplaceAllStringFunc(s, redactFlag)
	}
	return s
}

// redactScheme takes the credentials after Bearer, Basic or Negotiate, unless they are a word of a sentence about them.
func redactScheme(match string) string {
	m := scheme.FindStringSubmatch(match)
	if m == nil || isProse(m[3]) && !isBasic(m[1], m[3]) {
		return match
	}
	return m[1] + m[2] + redacted
}

// isBasic reports whether the value decodes to user:password.
func isBasic(name, value string) bool {
	if !strings.EqualFold(name, "basic") {
		return false
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
	return err == nil && strings.Contains(string(raw), ":")
}

// isProse reports whether a value after a scheme's name is one of the words that sentences about credentials use there.
func isProse(word string) bool {
	switch strings.ToLower(strings.TrimRight(word, ".=")) {
	case "token", "tokens", "auth", "authentication", "authorization", "scheme", "credential", "credentials", "realm",
		"is", "was", "not", "header", "headers", "required", "missing", "and", "or", "error", "challenge", "functionality",
		"type", "types", "access", "support", "info", "information", "check", "checks", "validation", "failed", "with", "the":
		return true
	default:
		return false
	}
}

// redactHeader takes what follows a header's name, unless it is a sentence about the header.
func redactHeader(match string) string {
	m := header.FindStringSubmatch(match)
	if m == nil || strings.Contains(m[2], ":") && readsOn(m[3]) {
		return match
	}
	return m[1] + m[2] + redacted
}

// redactPairs takes the value of key=value and key: value where the key names a secret.
func redactPairs(s string) string {
	var b strings.Builder
	last := 0
	for _, at := range secret.FindAllStringSubmatchIndex(s, -1) {
		value := s[at[6]:at[7]]
		sep := strings.TrimSpace(s[at[4]:at[5]])
		if strings.HasPrefix(value, redacted) || sep == ":" && readsOn(s[at[6]:]) {
			continue
		}
		b.WriteString(s[last:at[6]])
		b.WriteString(redacted)
		last = at[7]
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// readsOn reports whether a text starts like a sentence: a word of letters alone, then a space and another word. A secret
// stands alone.
func readsOn(text string) bool {
	word, rest, found := strings.Cut(text, " ")
	if !found || word == "" || rest == "" {
		return false
	}
	for i, r := range word {
		if !unicode.IsLetter(r) || i > 0 && !unicode.IsLower(r) {
			return false
		}
	}
	r := rune(rest[0])
	return unicode.IsLetter(r)
}

// redactFlag takes the argument of a command line's flag.
func redactFlag(match string) string {
	m := flagged.FindStringSubmatch(match)
	if m == nil || strings.HasPrefix(m[2], redacted) {
		return match
	}
	return m[1] + redacted
}
