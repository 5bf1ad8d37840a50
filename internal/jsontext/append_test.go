// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// escapedByRune is what AppendText promises, one character at a time.
func escapedByRune(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s { // yields U+FFFD for each byte that is not UTF-8
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r == '\b':
			out.WriteString(`\b`)
		case r == '\f':
			out.WriteString(`\f`)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < ' ':
			out.WriteString(`\u00` + string("01"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			out.WriteRune(r)
		}
	}
	return out.String() + `"`
}

// TestAppendTextAtEveryPlace puts what needs care at every place of texts around
// the length of a word, alone and twice, into buffers with and without room.
func TestAppendTextAtEveryPlace(t *testing.T) {
	t.Parallel()
	for _, special := range []string{`"`, `\`, "\n", "\r", "\t", "\b", "\f", "\x00", "\x1f", "\x7f", "é", "€", "😀", "\xff", "\xe2\x82", "\u2028"} {
		for length := range 27 {
			for at := range length + 1 {
				plain := strings.Repeat("abcdefgh", 4)[:length]
				checkText(t, plain[:at]+special+plain[at:])
				checkText(t, plain[:at]+special+special+plain[at:])
			}
		}
	}
}

func checkText(t *testing.T, text string) {
	t.Helper()
	want := escapedByRune(text)
	if _, valid := AppendValid(nil, []byte(text)); valid != utf8.ValidString(text) {
		t.Fatalf("AppendValid(%q) says %t", text, valid)
	}
	for _, dst := range [][]byte{nil, make([]byte, 0, 7), make([]byte, 0, 1024)} {
		if got := string(AppendText(dst, []byte(text))); got != want {
			t.Fatalf("AppendText(%q) is %s, want %s", text, got, want)
		}
	}
	if got := string(AppendText([]byte("before"), []byte(text))); got != "before"+want {
		t.Fatalf("behind something: AppendText(%q) is %s, want %s", text, got, want)
	}
}

// FuzzAppendText compares with the slow way, with another implementation and with
// what encoding/json reads.
func FuzzAppendText(f *testing.F) {
	f.Add([]byte(`{"a":"b\\c","d":[1,2,"é€😀"],"e":"\n"}`))
	f.Add([]byte("\xff\xfe plain text that is longer than a word \x00\x1f"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := AppendText(nil, text)
		if want := escapedByRune(string(text)); string(got) != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if want, err := jsontext.AppendQuote(nil, text); string(got) != string(want) {
			t.Fatalf("%s, another implementation has %s, %v", got, want, err)
		}
		_, valid := AppendValid(nil, text)
		if valid != utf8.Valid(text) {
			t.Fatalf("%q is UTF-8: %t", text, valid)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(string(text), "\ufffd") && !strings.Contains(back, "\ufffd") {
			t.Fatalf("%s is read as %q, %v", got, back, err)
		}
	})
}
