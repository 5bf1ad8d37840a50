// SPDX-License-Identifier: Apache-2.0

package content

import (
	"regexp"
	"testing"
)

// templateRule is the grammar of RFC 6570, section 2, as one expression.
func templateRule() *regexp.Regexp {
	const name = `([A-Za-z0-9_]|%[0-9A-Fa-f]{2})+`
	const variable = name + `(\.` + name + `)*(:[1-9][0-9]{0,3}|\*)?`
	return regexp.MustCompile(`^([^\x00-\x20\x7F"'%<>\\^\x60{|}]|%[0-9A-Fa-f]{2}|\{[+#./;?&]?` + variable + `(,` + variable + `)*\})*$`)
}

// FuzzIsTemplate: what passes is what the grammar says.
func FuzzIsTemplate(f *testing.F) {
	for _, seed := range []string{
		"", "a:b", "a://{x}", "{x}", "{+x,y*}", "{?a:3,b.c}", "{&%41}", "{x:10000}", "{x:0}", "{x:}", "{}", "{", "}", "{{x}}", "{x}}", "{x", "{=x}", "{x.}", "{.x}",
		"{..x}", "{x..y}", "{x,}", "{,x}", "{x*:3}", "a b", "%", "%4", "%4g", "%41", "ä{ä}", "{x y}", "a\x7fb", "<", "\x00",
	} {
		f.Add(seed)
	}
	rule := templateRule()
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := isTemplate(s), rule.MatchString(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	})
}
