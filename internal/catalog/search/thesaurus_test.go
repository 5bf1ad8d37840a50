// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
)

func TestEmbeddedThesaurus(t *testing.T) {
	t.Parallel()
	if err := search.ReadThesaurus(search.EmbeddedThesaurus()); err != nil {
		t.Error(err)
	}
}

func TestBadLineOfThesaurus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{"# About.\n\n[verbs]\nget fetch\n", ""},
		{"get fetch", `thesaurus, line 1: it is in no section`},
		{"[verbs]\nget fetch\n[verb]\n", "thesaurus, line 3: there is no section [verb]"},
		{"[verbs]\nGet fetch\n", `thesaurus, line 2: "Get" is not a word in lower case`},
		{"[verbs]\nget, fetch\n", `thesaurus, line 2: "get," is not a word in lower case`},
		{"[verbs]\nget = fetch\n", `thesaurus, line 2: a line of this section has no "="`},
		{"[phrases]\nlog in\n", `thesaurus, line 2: a line of this section has words, "=", and the words that they mean`},
		{"[phrases]\nlog in =\nlog out\n", `thesaurus, line 2: a line of this section has words, "=", and the words that they mean
thesaurus, line 3: a line of this section has words, "=", and the words that they mean`},
	} {
		got := ""
		if err := search.ReadThesaurus(tc.text); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tc.text, got, tc.want)
		}
	}
}
