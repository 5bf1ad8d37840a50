// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// QuotedLen is the length of what AppendText writes, or says that it is not.
func FuzzQuotedLen(f *testing.F) {
	for _, text := range []string{
		"", `{"a":"b\"c"}`, "\x7f", "\x1f", strings.Repeat("x", 31) + "\n", strings.Repeat("é", 40), "\xff", "a\xe2\x82",
		strings.Repeat(`"`, 70), strings.Repeat(" !~\x80", 9),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, ok := jsontext.QuotedLen(text)
		hasControl := strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' })
		if ok != (utf8.Valid(text) && !hasControl) {
			t.Fatalf("%q: %v", text, ok)
		}
		if want := len(jsontext.AppendText(nil, text)); ok && n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	})
}
