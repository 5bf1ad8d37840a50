// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The keys and tokens below are made up; they only have the shape of real ones.
func TestRedact(t *testing.T) {
	t.Parallel()
	jwtText := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nAAKCAQEA\n-----END RSA PRIVATE KEY-----"
	tests := []struct {
		name, in, want string
	}{
		{"empty", "", ""},
		{"plain", "vehicle 7 is in the workshop", "vehicle 7 is in the workshop"},
		{"keeps newline and tab", "a\n\tb", "a\n\tb"},
		{"control characters", "a\x00b\x1b[31mc\r\n\u0085d\x7f", "ab[31mc\nd"},
		{"invalid utf-8", "a\xff\xfeb", "a\uFFFDb"},
		{"keeps other scripts", "Fehler: Größe überschritten 数値", "Fehler: Größe überschritten 数値"},

		{"bearer", "upstream said 401 to Bearer abc.def-123", "upstream said 401 to Bearer [redacted]"},
		{"bearer in a header", "sent Authorization: Bearer abcdefgh to x", "sent Authorization: [redacted]"},
		{"authorization of words", "Authorization: Basic dXNlcjpwYXNz", "Authorization: [redacted]"},
		{"lower-case bearer", "bearer c2VjcmV0", "bearer [redacted]"},
		{"bearer in prose", "Bearer token required", "Bearer token required"},
		{"basic", "got Basic dXNlcjpwYXNz", "got Basic [redacted]"},
		{"basic in prose", "basic authentication failed", "basic authentication failed"},
		{"header in prose", "authorization: header is missing", "authorization: header is missing"},
		{"cookie", "Cookie: a=1; b=2", "Cookie: [redacted]"},

		{"url credentials", "dial postgres://bob:s3cr3t@db:5432/x failed", "dial postgres://[redacted]@db:5432/x failed"},
		{"url user only", "https://ghtoken@example.com/x", "https://[redacted]@example.com/x"},
		{"url password with @", "redis://:p@ss@h:1", "redis://[redacted]@h:1"},
		{"url password with slash", "amqp://u:pa/ss@h/v", "amqp://[redacted]@h/v"},
		{"url with a port and an @ in its path", "GET http://h:80/npm/@scope/x", "GET http://h:80/npm/@scope/x"},
		{"mail address", "ask ops@example.com", "ask ops@example.com"},

		{"password=", "login failed: user=bob password=hunter2 host=db", "login failed: user=bob password=[redacted] host=db"},
		{"password= of letters", "password=correcthorse battery", "password=[redacted] battery"},
		{"prefix and suffix", "DB_PASSWORD_MAIN=x1 next", "DB_PASSWORD_MAIN=[redacted] next"},
		{"quoted with spaces", `password="two words" y`, `password=[redacted] y`},
		{"unclosed quote", `password="two words`, `password=[redacted]`},
		{"escaped quote", `secret: "a\"b" c`, `secret: [redacted] c`},
		{"json", `{"user":"bob","password":"hun ter2","n":1}`, `{"user":"bob","password":[redacted],"n":1}`},
		{"json in json", `"{\"api_key\":\"k 1\",\"n\":1}"`, `"{\"api_key\":[redacted],\"n\":1}"`},
		{"query", "GET /x?a=1&access_token=zzz&b=2", "GET /x?a=1&access_token=[redacted]&b=2"},
		{"colon, alone", "password: correcthorse", "password: [redacted]"},
		{"colon, with digits", "token: abc123 was refused", "token: [redacted] was refused"},
		{"colon, prose", "password: must be at least 8 characters", "password: must be at least 8 characters"},
		{"token as a syntax word", "unexpected token at 5", "unexpected token at 5"},
		{"api key spellings", "api key=1 api-key=2 apikey=3 X-API-Key: 4k", "api key=[redacted] api-key=[redacted] apikey=[redacted] X-API-Key: [redacted]"},
		{"client secret", "client_secret=abc, x", "client_secret=[redacted], x"},
		{"command line", "exec: tool --password hunter2 --n 3", "exec: tool --password [redacted] --n 3"},
		{"a dash within a word", "no Mcp-Session-Id was sent", "no Mcp-Session-Id was sent"},
		{"a flag in brackets", "exec: (--token hunter2)", "exec: (--token [redacted]"},
		{"two flags", "x --token a --password b", "x --token [redacted] --password [redacted]"},
		{"a challenge", `Bearer realm="outrigger"`, `Bearer realm="outrigger"`},
		{"ruby hash", ":token => \"abc\"", ":token => [redacted]"},

		{"jwt", "claims of " + jwtText + " are stale", "claims of [redacted] are stale"},
		{"pem", "bad key " + pem + " in file", "bad key [redacted] in file"},
		{"pem without end", "bad key -----BEGIN PRIVATE KEY-----\nMIIE\nAAAA", "bad key [redacted]"},
		{"aws key id", "denied for AKIAIOSFODNN7EXAMPLE now", "denied for [redacted] now"},
		{"aws secret", "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG+bPx", "aws_secret_access_key=[redacted]"},
		{"github", "ghp_abcdefghijklmnopqrstuvwxyz0123 is revoked", "[redacted] is revoked"},
		{"slack", "xoxb-12345678-abcdef", "[redacted]"},

		{"go panic", "boom\n\ngoroutine 12 [running]:\nmain.main()\n\t/src/main.go:9 +0x1d", "boom [stack trace removed]"},
		{"java", "NPE\n\tat com.shop.Cart.add(Cart.java:42)\n\tat x", "NPE [stack trace removed]"},
		{"dotnet", "Oops\n   at Shop.Cart.Add(Int32 id) in /src/Cart.cs:line 9", "Oops [stack trace removed]"},
		{"python", "failed\nTraceback (most recent call last):\n  File \"/a.py\", line 3\nValueError", "failed [stack trace removed]"},
		{"node", "TypeError: x\n    at Object.<anonymous> (/srv/a.js:1:2)", "TypeError: x [stack trace removed]"},
		{"node, no parentheses", "TypeError: x\n    at /srv/a.js:1:2", "TypeError: x [stack trace removed]"},
		{"rust", "panicked\nstack backtrace:\n   0: x", "panicked [stack trace removed]"},
		{"only a trace", "goroutine 1 [running]:\nx", "[stack trace removed]"},
		{"ruby", "oops\napp.rb:3:in `call'", "oops [stack trace removed]"},
		{"c++", "abort\n#0  0x00007f12345678 in main", "abort [stack trace removed]"},
		{"a time in parentheses", "closed at noon (12:30) or at night (12:30:15)", "closed at noon (12:30) or at night (12:30:15)"},
		{"a file and a line", "rule at line 3 of main.go:12 fails", "rule at line 3 of main.go:12 fails"},
		{"at in prose", "arrived at Berlin (Mitte) on time", "arrived at Berlin (Mitte) on time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Redact(tt.in); got != tt.want {
				t.Errorf("Redact(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestRedactBounds(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in string }{
		{"ascii", strings.Repeat("word ", 10000)},
		{"three-byte runes", strings.Repeat("数", 5000)},
		{"four-byte runes", "a" + strings.Repeat("🚚", 5000)},
		{"secrets without end", strings.Repeat("password=", 3000)},
		{"a cut through a placeholder", strings.Repeat("x", maxMessageBytes-14) + " password=abc def ghi jkl"},
		{"invalid bytes", strings.Repeat("\xff", 9000)},
		{"invalid bytes apart", strings.Repeat("\xffa", 9000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := Redact(tt.in)
			checkRedacted(t, out)
			if out == "" {
				t.Error("nothing left")
			}
		})
	}
}

// A secret that is split by the cut does not survive as a fragment.
func TestRedactBeforeCut(t *testing.T) {
	t.Parallel()
	out := Redact(strings.Repeat("x", maxMessageBytes-20) + " password=abcdefghijklmnopqrstuvwxyz")
	if strings.Contains(out, "abc") {
		t.Errorf("a part of the secret is left: %q", out[len(out)-40:])
	}
}

func checkRedacted(t *testing.T, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("not UTF-8: %q", out)
	}
	if len(out) > maxMessageBytes {
		t.Errorf("%d bytes", len(out))
	}
	for _, r := range out {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Errorf("control character %U is left", r)
		}
	}
	if again := Redact(out); again != out {
		t.Errorf("not idempotent:\n%q\n%q", out, again)
	}
}

func FuzzRedact(f *testing.F) {
	for _, s := range []string{
		"", "password=abc", "Authorization: Bearer x", "postgres://u:p@h", "a\xff", "-----BEGIN A-----", "eyJaaaa.bbbb.cccc",
		"x\n\tat a.B(C.java:1)", `{"token":"x\"y"}`, "--token abc", "token: ab cd", strings.Repeat("secret=[redacted", 200),
		"://:@", "Basic Og==", "[redacted]@[redacted]", "goroutine 1 [running]:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkRedacted(t, Redact(s)) })
}

func BenchmarkRedact(b *testing.B) {
	for _, tt := range []struct{ name, in string }{
		{"short", "vehicle 7 is in the workshop"},
		{"secret", "dial postgres://bob:s3cr3t@db:5432/x failed: password=hunter2"},
		{"window", strings.Repeat("at a.b.c.d.e.f ", redactWindow/15)},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Redact(tt.in)
			}
		})
	}
}
