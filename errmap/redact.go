// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
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

// The patterns of a secret. RE2 takes time linear in the text, whatever the text. They are not assigned to.
var (
	pemBlock = pattern(`(?s)-----BEGIN [A-Z0-9 ]{1,64}-----.*?(?:-----END [A-Z0-9 ]{1,64}-----|$)`)
	jwt      = pattern(`\beyJ[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*){0,3}`)
	// Key ids with a prefix of their own: AWS, GitHub, Slack, Google, Stripe and the sk- family.
	knownKey = pattern(`\b(?:(?:AKIA|ASIA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA|ABIA|ACCA)[A-Z0-9]{12,}` +
		`|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|xox[a-z]-[A-Za-z0-9\-]{8,}` +
		`|AIza[A-Za-z0-9_\-]{30,}|[rs]k[-_][A-Za-z0-9_\-]{16,})`)
	scheme = pattern(`(?i)\b(bearer|basic|negotiate)([ \t]+)([A-Za-z0-9._~+/\-]+=*)`)
	// Everything between :// and the last @ before the path. The second form is for a password with a slash in it; it
	// wants a character in the password's first part that a port cannot have.
	urlUser  = pattern(`(` + urlSchemes + `)[^\s/?#"'<>]*@`)
	urlSlash = pattern(`(` + urlSchemes + `)[^\s/:@"'<>]*:[0-9]*[^\s/@0-9"'<>][^\s@"'<>]*@`)
	secret   = pattern(`(?i)([\w.\-]*(?:` + secretNames + `)[\w.\-]*\\*["']?)([ \t]*(?:=>|[=:])[ \t]*)` + secretValue)
	// A command line's --password VALUE. A dash within a word begins no flag: "no Mcp-Session-Id was sent" is prose.
	flagged = pattern(`(?i)((?:^|[^\w\-])--?[\w\-]*(?:` + secretNames + `)[\w\-]*[ \t]+)([^\s=:\-][^\s]*)`)
	// Authorization and cookies hold several words: to the end of the line.
	header = pattern(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*["']?[ \t]*[=:][ \t]*)([^\n]+)`)
)

// pattern is a pattern that is compiled when it is first needed.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

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
		s = pemBlock().ReplaceAllString(s, redacted)
	}
	if has.all(hasHeader | hasPair) {
		s = header().ReplaceAllStringFunc(s, redactHeader)
	}
	if has.all(hasScheme | hasBlank) {
		s = scheme().ReplaceAllStringFunc(s, redactScheme)
	}
	if has.all(hasURL | hasAt) {
		s = urlUser().ReplaceAllString(s, "${1}"+redacted+"@")
		s = urlSlash().ReplaceAllString(s, "${1}"+redacted+"@")
	}
	if has.all(hasJWT) {
		s = jwt().ReplaceAllString(s, redacted)
	}
	if has.all(hasKey) {
		s = knownKey().ReplaceAllString(s, redacted)
	}
	if has.all(hasSecret | hasPair) {
		s = redactPairs(s)
	}
	if has.all(hasSecret | hasDash) {
		s = flagged().ReplaceAllStringFunc(s, redactFlag)
	}
	return s
}

// redactScheme takes the credentials after Bearer, Basic or Negotiate, unless they are a word of a sentence about them.
func redactScheme(match string) string {
	m := scheme().FindStringSubmatch(match)
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
	m := header().FindStringSubmatch(match)
	if m == nil || strings.Contains(m[2], ":") && readsOn(m[3]) {
		return match
	}
	return m[1] + m[2] + redacted
}

// redactPairs takes the value of key=value and key: value where the key names a secret.
func redactPairs(s string) string {
	var b strings.Builder
	last := 0
	for _, at := range secret().FindAllStringSubmatchIndex(s, -1) {
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
// is alone.
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
	m := flagged().FindStringSubmatch(match)
	if m == nil || strings.HasPrefix(m[2], redacted) {
		return match
	}
	return m[1] + redacted
}

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

// keywordList is every keyword of every pattern in this file. A pattern that is added there has its keywords
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

// traceGone is where a stack trace was.
const traceGone = "[stack trace removed]"

// tracePattern is one way in which a stack trace starts. Every match of it has all that it needs, so that most texts need
// no search.
type tracePattern struct {
	needs features
	re    func() *regexp.Regexp
}

// tracePatterns are those of Go, Java, .NET, Python, Node, Rust, Ruby and C++. They want a file and a line, so that a
// sentence with "at" in it stays. Not assigned to.
var tracePatterns = [...]tracePattern{
	{hasGoroutine, traceRegexp(`goroutine [0-9]+ \[[^\]\n]*\]:`)},
	{hasGoLine | hasHex, traceRegexp(`[^\s:]+\.go:[0-9]+ \+0x[0-9a-f]+`)},
	{hasTraceback, traceRegexp(`Traceback \(most recent call last\)`)},
	{hasFile, traceRegexp(`File "[^"\n]+", line [0-9]+`)},
	{hasAtWord | hasParen, traceRegexp(`at [\w.$<>/]+\((?:[\w$\-]+\.\w+:[0-9]+|Native Method|Unknown Source)\)`)},
	{hasAtWord | hasParen | hasPair, traceRegexp(`at [^()\n]+ \((?:[^()\n]*[/\\][^()\n]*|node:[^()\n]*):[0-9]+:[0-9]+\)`)},
	{hasAtWord | hasSlash | hasPair, traceRegexp(`at (?:async )?(?:file://)?/[^\s:()]+:[0-9]+:[0-9]+`)},
	{hasAtWord | hasParen | hasLine, traceRegexp(`at [^()\n]+\([^()\n]*\) in [^\n]+:line [0-9]+`)},
	{hasRuby, traceRegexp(`(?:from )?[^\s:]+\.rb:[0-9]+:in `)},
	{hasHex, traceRegexp(`#[0-9]+ +0x[0-9a-f]{6,} `)},
	{hasStack | hasPair, traceRegexp(`(?i)(?:stack ?trace(?: follows)?|stack backtrace|call stack|backtrace):`)},
}

// traceRegexp is a pattern that starts a line or follows a space.
func traceRegexp(text string) func() *regexp.Regexp { return pattern(`(?:^|[\n \t])(?:` + text + `)`) }

// traceStart returns where the first stack trace of a text starts, -1 where it has none.
func traceStart(s string, has features) int {
	start := -1
	for _, p := range tracePatterns {
		if !has.all(p.needs) {
			continue
		}
		if at := p.re().FindStringIndex(s); at != nil && (start < 0 || at[0] < start) {
			start = at[0]
		}
	}
	return start
}

const (
	// maxNameBytes bounds a name or URI that a message echoes: callers choose them.
	maxNameBytes = 256
	// maxTextViolations bounds the violations in a text for a model; data holds more. Past twenty faults a call is not
	// mended fault by fault.
	maxTextViolations = 20
	// maxRetryAfter bounds what a peer can make a caller wait, and keeps the number sane.
	maxRetryAfter = 24 * time.Hour
	// defaultRetryAfter is for Retry-After where the wait is not known: the header counts in seconds, and one is its
	// smallest wait.
	defaultRetryAfter = time.Second
)

// message is the sentence for the caller, after the place of the call in its program.
func (e *Error) message() safeText {
	return safeText(e.called()) + e.sentence()
}

// sentence is message without that place, redacted and bounded: the error's own, else the row's.
func (e *Error) sentence() safeText {
	e = e.known()
	row := e.row()
	switch {
	case e.Code == InternalError:
		return safeText(row.Message) // whatever was set may tell of the inside
	case e.Code == ToolNotFound && e.Tool != "":
		return safeText(row.Message + ": " + clip(e.Tool, maxNameBytes))
	}
	if text := e.redaction().text; text != "" {
		return text
	}
	return safeText(row.Message)
}

// ModelText returns the text of a failed tool result, for models: what went wrong, where, and what to do next. Where a
// backend names fields of Document as its .proto file does, the names of the arguments are beside them.
func (e *Error) ModelText(about About) string {
	e = e.known()
	row := e.row()
	var b strings.Builder
	message, advice := string(e.sentence()), e.advice(about.Idempotent)
	var names argumentNames
	if e.FromTool() && (len(e.Details) > 0 || strings.ContainsAny(message, "_\"'`")) {
		names = argumentNamesOf(e.Document)
		message = names.explain(message)
	}
	const marks = 8 // what is between the parts
	b.Grow(len(row.Message) + len(message) + min(len(e.Tool), maxNameBytes) + len(advice) + marks)
	if e.Line > 0 {
		write(&b, "line ", strconv.Itoa(e.Line), ", column ", strconv.Itoa(e.Column), ": ")
	}
	switch {
	case e.Code == ToolNotFound:
		b.WriteString(message) // names the tool already
	case row.Fixed || e.Message == "":
		b.WriteString(row.Message)
		if e.Tool != "" {
			write(&b, " (", clip(e.Tool, maxNameBytes), ")")
		}
		if message != row.Message {
			write(&b, ": ", message)
		}
	default:
		if e.Tool != "" {
			write(&b, clip(e.Tool, maxNameBytes), ": ")
		}
		b.WriteString(message)
	}
	faults := e.Violations
	if len(faults) == 0 {
		faults = fieldFaults(e.Details)
	}
	for i, v := range faults {
		if i == maxTextViolations {
			b.WriteString("\n- and " + strconv.Itoa(len(faults)-i) + " more")
			break
		}
		b.WriteString("\n- ")
		if path := clip(v.Path, maxNameBytes); path != "" {
			b.WriteString(names.path(path) + ": ")
		}
		b.WriteString(names.explain(clip(v.Message, maxViolationBytes)))
	}
	if e.ItemsSent != nil && *e.ItemsSent > 0 {
		write(&b, "\nItems sent before: ", strconv.Itoa(*e.ItemsSent), ". The tool may have taken them.")
	}
	if advice != "" {
		write(&b, "\n", advice)
	}
	return b.String()
}

func write(b *strings.Builder, parts ...string) {
	for _, part := range parts {
		b.WriteString(part)
	}
}

// advice is what to do next.
func (e *Error) advice(idempotent bool) string {
	if e.Advice != "" {
		return Redact(e.Advice)
	}
	if e.CanRetry(idempotent) {
		if wait := e.retryAfter(); wait > 0 {
			return "Try again in " + strconv.Itoa(seconds(wait)) + " s."
		}
		return "The same call may be retried."
	}
	switch e.Code {
	case InvalidToolInput, InvalidParams:
		return "Correct the arguments and call again."
	case Timeout, TransportError:
		return "The tool may or may not have run. Check before you call it again."
	case DestructiveBlocked:
		return "An operator must allow destructive tools. Do not retry before that."
	case ApprovalRequired:
		return "Others must approve this call. Tell the user, and make the same call again later."
	case PermissionDenied:
		return "The same call will be refused again."
	case ResourceExhausted:
		return "Ask for less in one call."
	case InvalidToolOutput, SerializationError:
		return "The tool may have run, but its response cannot be used. Calling it again will not help."
	case MissingClientCapability:
		return "The tool needs a client with this capability."
	default:
		return ""
	}
}

// retryAfter is the known wait, within bounds; 0 where it is not known.
func (e *Error) retryAfter() time.Duration {
	return min(max(e.RetryAfter, 0), maxRetryAfter)
}

// retryAfterHeader is the value of Retry-After in seconds; 0 for none. The two codes that ask the caller to wait always
// have one.
func (e *Error) retryAfterHeader() int {
	wait := e.retryAfter()
	if wait == 0 && (e.Code == RateLimited || e.Code == Unavailable) {
		wait = defaultRetryAfter
	}
	return seconds(wait)
}

// seconds rounds up: an early retry is refused again.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// clip makes a string from outside safe to echo: clean, on one line, and of at most limit bytes.
func clip(s string, limit int) string {
	if len(s) > 2*limit {
		s = s[:2*limit] // what is cut off here would not be shown; a rune cut in half is replaced by clean
	}
	return truncate(cleanLine(s), limit)
}

// truncate cuts s at a rune boundary to at most limit bytes, the mark included.
func truncate(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
