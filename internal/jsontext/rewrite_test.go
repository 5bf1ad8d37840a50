// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// TestRewriter leaves members out, renames others and copies the rest, at every
// place of an object.
func TestRewriter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                         `{}`,
		` { "drop" : 1 } `:           `{}`,
		`{"drop":{"a":[1]},"b": 2 }`: `{"b":2}`,
		`{"b":"\"}","drop":"x,}"}`:   `{"b":"\"}"}`,
		`{"a":1,"drop":[ ],"old": true,"c":[ 1 , {"drop":0} ,[]]}`: `{"a":1,"new":true,"c":[1,{},[]]}`,
		`{"\u0064rop":1,"d":{ "x" : null }}`:                       `{"d":{"x":null}}`,
		`[ ]`:                                                      `[]`,
		`"text"`:                                                   `"text"`,
	} {
		r := jsontext.Rewriter{In: []byte(in), Pos: jsontext.SkipSpace([]byte(in), 0)}
		rewrite(&r)
		if got := string(r.Out); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
		if rest := strings.TrimSpace(in[r.Pos:]); rest != "" {
			t.Errorf("%s: %q is left", in, rest)
		}
	}
}

func rewrite(r *jsontext.Rewriter) {
	switch r.Next() {
	case '{':
		r.Members(func(quoted []byte) ([]byte, func()) {
			switch jsontext.PlainName(quoted) {
			case "drop":
				return nil, nil
			case "old":
				quoted = []byte(`"new"`)
			}
			return quoted, func() { rewrite(r) }
		})
	case '[':
		r.Items(func(int) { rewrite(r) })
	default:
		r.Copy()
	}
}
