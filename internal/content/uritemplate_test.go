// SPDX-License-Identifier: Apache-2.0

package content

import "testing"

// TestIsTemplate has examples of RFC 6570, and what comes close to one.
func TestIsTemplate(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "a:b", "a://{x}", "{x}", "{+x,y*}", "{?a:3,b.c}", "{&%41}", "{x*}", "{x:9999}", "%41", "{.x}", "{/x,y}x{#z}", "x{;a}", "å",
	} {
		if !isTemplate(s) {
			t.Errorf("%q is a template", s)
		}
	}
	for _, s := range []string{
		"{x:10000}", "{x:0}", "{x:}", "{x:01}", "{}", "{", "}", "{{x}}", "{x}}", "{x", "{=x}", "{x.}", "{..x}", "{x..y}", "{x,}", "{,x}", "{x*:3}", "{ä}",
		"a b", "%", "%4", "%4g", "{%4}", "{x y}", "a\x7fb", "<", "\x00", "\"", "'", "\\", "^", "`", "|",
	} {
		if isTemplate(s) {
			t.Errorf("%q is no template", s)
		}
	}
}
