// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// What cannot be seen, or ends a line for some readers, is escaped; what is read stays.
func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		`{"a":"plain, 8 and more"}`:    `{"a":"plain, 8 and more"}`,
		"é 漢字 🦆 \u00a0 \u3000 e\u0301": "é 漢字 🦆 \u00a0 \u3000 e\u0301",
		"\u0085\u2028\u2029":           `\u0085\u2028\u2029`,
		"a\u202eb\u2066\u061c\u200f":   `a\u202eb\u2066\u061c\u200f`,
		"12345678\u200b\u2060\ufeffx":  `12345678\u200b\u2060\ufeffx`,
		"1234567\x7f":                  `1234567\u007f`,
		"\u009b31m\u00ad":              `\u009b31m\u00ad`,
		"\ufe0f\u3164\u115f\u034f":     `\ufe0f\u3164\u115f\u034f`,
		"\U000e0041\U000e0100\ue000":   `\udb40\udc41\udb40\udd00\ue000`,
		`\\` + "\u2028":                `\\\u2028`,
		"\xff\x7f\xe2\x80":             "\xff" + `\u007f` + "\xe2\x80",
		"\u0378":                       `\u0378`,
	} {
		if got := string(jsontext.Visible([]byte(text), 0)); got != want {
			t.Errorf("Visible(%+q) = %+q, want %+q", text, got, want)
		}
		if got := string(jsontext.Visible([]byte("\u2028"+text), len("\u2028"))); got != "\u2028"+want {
			t.Errorf("Visible(%+q) from an offset = %+q", text, got)
		}
	}
	if got := string(jsontext.WithoutLineEnds([]byte("\u2028\u202e\x7f\u2029é\u0085"))); got != `\u2028`+"\u202e\x7f"+`\u2029é\u0085` {
		t.Errorf("got %+q", got)
	}
	text := []byte("\u2028")
	text = append(make([]byte, 0, 64), text...)
	if jsontext.WithoutLineEnds(text); string(text) != "\u2028" {
		t.Errorf("the text was changed in its place: %+q", text)
	}
}

// Escapes change no value.
func FuzzVisible(f *testing.F) {
	f.Add("a\u2028\U000e0041\x7f\\\"")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			t.Skip()
		}
		line := jsontext.Visible(jsontext.AppendString(nil, s), 0)
		var got string
		if err := json.Unmarshal(line, &got); err != nil || got != s {
			t.Fatalf("%+q became %q, %v", s, line, err)
		}
		if bytes.ContainsAny(line, "\u0085\u2028\u2029\u202e\u200b\x7f") {
			t.Fatalf("%+q is not visible", line)
		}
	})
}
