// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"strings"
	"testing"
)

func TestTreeKeepsWhatTextSays(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`{"b":1,"a":{"c":[null,true,"x\u2028\"\\"]},"b":2}`, `18446744073709551616`, `-0`, `1e400`, `[]`, `{}`, `"<&>"`,
	} {
		root, err := parseTree([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendTree(nil, root)); got != doc {
			t.Errorf("want %s, got %s", doc, got)
		}
	}
}

func TestSameTree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, true},
		{`1e2`, `100`, true},
		{`1`, `"1"`, false},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`true`, `1`, false},
	} {
		a, errA := parseTree([]byte(c.a))
		b, errB := parseTree([]byte(c.b))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if sameTree(a, b) != c.same || sameTree(b, a) != c.same {
			t.Errorf("%s and %s: want same %t", c.a, c.b, c.same)
		}
	}
}

func TestMinimizeLeavesWhatShows(t *testing.T) {
	t.Parallel()
	root, err := parseTree([]byte(`{"a":[1,{"b":"needle","c":3}],"d":{"e":[]},"f":null}`))
	if err != nil {
		t.Fatal(err)
	}
	small := minimize(root, func(v any) bool { return strings.Contains(string(appendTree(nil, v)), "needle") })
	if got, want := string(appendTree(nil, small)), `{"a":[{"b":"needle"}]}`; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}
