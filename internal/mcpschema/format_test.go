// SPDX-License-Identifier: Apache-2.0

package mcpschema

import "testing"

func TestTemplates(t *testing.T) {
	t.Parallel()
	for _, valid := range []string{"", "x:a", "x:{a}", "x:{+a,b}/{#c}{?d*,e:10}", "file:///{path*}", "x:%20{a.b}", "x:ä{&_1}", "x:{%41}"} {
		if err := checkTemplate(valid); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
	for _, wrong := range []string{"{", "}", "{}", "{{a}}", "{a", "a}", "{a,}", "{!a}", "{a b}", "a b", "%2", "{a:0}", "{a:12345}", "{a-b}", "<a>"} {
		if checkTemplate(wrong) == nil {
			t.Errorf("%q is no template", wrong)
		}
	}
	if checkTemplate(7) != nil || checkBase64(7) != nil {
		t.Error("a format is about texts alone")
	}
}
