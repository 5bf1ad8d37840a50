// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

func TestCleanComment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", " Gets it.\n", "Gets it."},
		{"paragraphs", " One.\n\n\n Two,\n more.\n\n", "One.\n\nTwo,\nmore."},
		{"indentation stays", " List:\n   - a\n", "List:\n  - a"},
		{"buf", " Gets it.\n buf:lint:ignore RPC_X\n", "Gets it."},
		{"protolint", " protolint:disable REPEATED\n Gets it.\n", "Gets it."},
		{"only directives", " buf:lint:ignore X\n nolint\n", ""},
		{"exclude first", " @exclude Internal.\n More.\n", ""},
		{"exclude later", " Gets it.\n @exclude for now\n", "Gets it."},
		{"API linter block", " Gets it.\n (-- api-linter: x=disabled\n     aip.dev/not-precedent: y --)\n Well.\n", "Gets it.\n\nWell."},
		{"block that does not end", " Gets it.\n (-- secret\n more\n", "Gets it."},
		{"windows", " One.\r\n Two.\r\n", "One.\nTwo."},
		{"controls", " G\x00e\x1bts\u202e it\u200b.\n", "Gets it."},
		{"invisible tags", " Gets it.\U000E0069\U000E0067\n", "Gets it."},
		{"bad UTF-8", " Gets \xff it.\n", "Gets \uFFFD it."},
		{"joiners stay", " 👩\u200d🔬 می\u200cخواهم\n", "👩\u200d🔬 می\u200cخواهم"},
		{"empty", "", ""},
	} {
		if got := cleanComment(tc.raw); got != tc.want {
			t.Errorf("%s: cleanComment(%q) = %q, want %q", tc.name, tc.raw, got, tc.want)
		}
	}
}

func TestFirstSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Gets it.":                         "Gets it",
		"Gets it. And more.":               "Gets it",
		"Gets it\nfrom there. More.":       "Gets it from there",
		"Gets it\n\nMore.":                 "Gets it",
		"Gets v1.2 of it. More.":           "Gets v1.2 of it",
		"Gets one, e.g. this. More.":       "Gets one, e.g. this",
		"Gets some (i.e. many). More.":     "Gets some (i.e. many)",
		"Is it there? More.":               "Is it there?",
		"These are taken:\n\n- a":          "These are taken",
		"":                                 "",
		"See foo.Bar for it. Then baz.Qux": "See foo.Bar for it",
	} {
		if got := firstSentence(text); got != want {
			t.Errorf("firstSentence(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(" Gets it. More.\n (-- x --)\n", 10)
	f.Add("\xff\u202e@exclude", 3)
	f.Fuzz(func(t *testing.T, raw string, most int) {
		if most < 4 || most > 1000 {
			t.Skip()
		}
		text := cleanComment(raw)
		title := firstSentence(text)
		short, _ := shown.CutBytes(text, most)
		for _, s := range []string{text, title, short, cutRunes(title, most), shown.Clip(raw)} {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not valid UTF-8", s)
			}
			if i := strings.IndexFunc(s, func(r rune) bool { return shown.IsUnprintable(r) || r != '\n' && r != '\t' && unicode.IsControl(r) }); i >= 0 {
				t.Errorf("%q holds an unprintable character at %d", s, i)
			}
		}
		if strings.Contains(title, "\n") || len(short) > most || utf8.RuneCountInString(cutRunes(title, most)) > most {
			t.Errorf("title %q or text %q breaks its limit %d", title, short, most)
		}
	})
}
