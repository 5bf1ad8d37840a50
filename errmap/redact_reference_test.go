// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strings"
	"testing"
	"unicode"
)

// redactByPatterns is Redact with every pattern tried on every text: what Redact must be equal to.
func redactByPatterns(s string) string {
	if s == "" {
		return ""
	}
	s = s[:min(len(s), redactWindow)]
	for range redactRounds {
		next := truncate(allPatterns(cleanByRune(s)), maxMessageBytes)
		if next == s {
			return s
		}
		s = next
	}
	if truncate(allPatterns(cleanByRune(s)), maxMessageBytes) == s {
		return s
	}
	return redacted
}

func cleanByRune(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func allPatterns(s string) string {
	if at := traceStart(s, hasAll); at >= 0 {
		s = strings.TrimSpace(strings.TrimRight(s[:at], " \t\n") + " " + traceGone)
	}
	s = pemBlock().ReplaceAllString(s, redacted)
	s = header().ReplaceAllStringFunc(s, redactHeader)
	s = scheme().ReplaceAllStringFunc(s, redactScheme)
	s = urlUser().ReplaceAllString(s, "${1}"+redacted+"@")
	s = urlSlash().ReplaceAllString(s, "${1}"+redacted+"@")
	s = jwt().ReplaceAllString(s, redacted)
	s = knownKey().ReplaceAllString(s, redacted)
	s = redactPairs(s)
	return flagged().ReplaceAllStringFunc(s, redactFlag)
}

// secretSamples has at least one match of every alternative of every pattern.
func secretSamples() []string {
	samples := []string{
		"-----BEGIN A-----\nx\n-----END A-----", "eyJaaaa.bbbb.cccc", "Basic dTpw", "Negotiate YII1", "BEARER x.y",
		"pg://u:p@h", "amqp://u:pa/ss@h/v", "Cookie: a=1", "set-cookie = b", "Proxy-Authorization: Basic x",
		"gho_abcdefghijklmnopq", "ghp_abcdefghijklmnopq", "ghs_abcdefghijklmnopq", "ghu_abcdefghijklmnopq", "ghr_abcdefghijklmnopq",
		"github_pat_abcdefghijklmnopq", "xoxb-12345678", "rk-abcdefghijklmnopq", "sk_abcdefghijklmnopq", "AIza" + strings.Repeat("x", 31),
		"goroutine 1 [running]:", "/a.go:1 +0x1d", "Traceback (most recent call last)", `File "a.py", line 3`, "at a.B(C.java:1)",
		"at x (/a.js:1:2)", "at a.B(Native Method)", "at f (node:x:1:2)", "at async file:///a.js:1:2", "at A.B(c) in d:line 3",
		"a.rb:1:in `x'", "#0  0x00007f12345678 in", "stack trace follows:", "stacktrace:", "Stack Backtrace:", "CALL STACK:", "backtrace:",
		strings.Repeat("secret=[redacted", 9), "Ba\u017Fic dTpw", "to\u212Aen=abc", "pa\u017F\u017Fword=abc", "\u017Fecret=x",
	}
	for _, id := range []string{"AKIA", "ASIA", "AGPA", "AIDA", "AIPA", "ANPA", "ANVA", "AROA", "ABIA", "ACCA"} {
		samples = append(samples, id+"IOSFODNN7EXAMPLE")
	}
	for _, name := range []string{
		"passwd", "password", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "api key", "accesskey",
		"access_key", "access-key", "privatekey", "private_key", "private-key", "signingkey", "signing_key", "signing-key",
		"encryptionkey", "encryption_key", "encryption-key", "accountkey", "account_key", "account-key", "credential", "credentials",
		"authorization", "sessionid", "session_id", "session-id", "signature",
	} {
		samples = append(samples, name+"=a1", strings.ToUpper(name)+": b2", "--"+name+" c3", `{"`+name+`":"d4"}`)
	}
	return samples
}

// Each sample is redacted, alone and within a sentence: without that, a keyword could be missing and no one would see it.
func TestEverySampleIsRedacted(t *testing.T) {
	t.Parallel()
	for _, s := range secretSamples() {
		for _, text := range []string{s, "call failed: \n " + s + " \n (code 7)"} {
			want := redactByPatterns(text)
			if want == text && !strings.Contains(s, "[redacted") {
				t.Errorf("%q is no sample of a secret", text)
			}
			if got := Redact(text); got != want {
				t.Errorf("Redact(%q)\n got %q\nwant %q", text, got, want)
			}
		}
	}
}

// A message without a keyword is read once and never meets a pattern.
func TestPlainMessagesMeetNoPattern(t *testing.T) {
	t.Parallel()
	const enough = hasPair | hasBlank | hasDash | hasAt | hasParen | hasSlash | hasAtWord
	for _, s := range []string{
		"vehicle 7 is in the workshop", "", "x", "queue full: 1,024 calls are running; retry in 1 s", "a backend - of three (at most)",
		"at least 5 of name@host/path", "Größe überschritten",
	} {
		if got := featuresOf(s) &^ enough; got != 0 {
			t.Errorf("%q has %b", s, got)
		}
	}
}

// FuzzNoSecretIsMissed holds the keywords to the patterns: what the patterns redact on their own, Redact redacts.
func FuzzNoSecretIsMissed(f *testing.F) {
	for _, s := range secretSamples() {
		f.Add(s)
		f.Add("a\n\t" + s + "@h (b)")
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := Redact(s), redactByPatterns(s); got != want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", s, got, want)
		}
	})
}

func BenchmarkRedactAndPatterns(b *testing.B) {
	texts := map[string]string{
		"short":  "vehicle 7 is in the workshop",
		"secret": "dial postgres://bob:s3cr3t@db:5432/x failed: password=hunter2",
		"words":  strings.Repeat("the vehicle is at the depot ", 70),
	}
	for name, text := range texts {
		b.Run(name+"/Redact", func(b *testing.B) {
			for b.Loop() {
				Redact(text)
			}
		})
		b.Run(name+"/patterns", func(b *testing.B) {
			for b.Loop() {
				redactByPatterns(text)
			}
		})
	}
}
