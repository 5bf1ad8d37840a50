// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDigitsAreDescribed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		of   func(reply) string
		want string
	}{
		{`{"id":9007199254740993,"result":{}}`, reply.id, report.Exact},
		{`{"id":9007199254740992,"result":{}}`, reply.id, "9007199254740992"},
		{`{"id":9007199254740992.0,"result":{}}`, reply.id, "9007199254740992.0"},
		{`{"id":"9007199254740993","result":{}}`, reply.id, `"9007199254740993"`}, // another type is not what was sent
		{`{"result":{}}`, reply.id, "missing"},
		{`{"id":9007199254740993,"error":{"code":-32600}}`, reply.id, "refused"},
		{`{"id":"a","result":{"structuredContent":{"number":9007199254740993}}}`, reply.number, report.Exact},
		{`{"id":"a","result":{"structuredContent":{"number":"9007199254740993"}}}`, reply.number, report.Exact},
		{`{"id":"a","result":{"structuredContent":{"number":9.007199254740992e15}}}`, reply.number, "9.007199254740992e15"},
		{`{"id":"a","result":{"isError":true,"content":[]}}`, reply.number, "refused"},
		{`{"id":"a","result":{"content":[]}}`, reply.number, "missing"},
		{`405`, reply.id, "not JSON"},
		{`method not allowed`, reply.id, "not JSON"},
	} {
		if got := describe([]byte(test.text), test.of); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

func FuzzDigits(f *testing.F) {
	f.Add([]byte(`{"id":9007199254740993,"result":{"structuredContent":{"number":"9007199254740993"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if describe(text, reply.id) == "" || describe(text, reply.number) == "" {
			t.Errorf("%q is described by nothing", text)
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	names := func(all []entrant) (out []string) {
		for _, e := range all {
			out = append(out, e.Name)
		}
		return out
	}
	for _, test := range []struct {
		names []string
		other string
		want  []string
	}{
		{nil, "", slices.DeleteFunc(Usual(), func(n string) bool { return n == subjectOther })},
		{nil, "binary", Usual()},
		{[]string{peer.FloorBoth, peer.FloorClient, "proxy"}, "", []string{"proxy", peer.FloorClient, peer.FloorBoth}},
		{[]string{"mcpgo-raw", "proxy"}, "", []string{"proxy", "mcpgo-raw"}},
		{[]string{"sidecar"}, "binary", []string{"sidecar", subjectOther}},
	} {
		got, err := choose(test.names, test.other)
		if err != nil || !slices.Equal(names(got), test.want) {
			t.Errorf("%v, %q: %v, %v", test.names, test.other, names(got), err)
		}
	}
	for _, bad := range [][]string{{"unknown"}, {subjectOther}, {""}} {
		if err := CheckSubjects(bad, ""); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// Every subject has a path that exists, and one of each kind that goals are about is there.
func TestEntrants(t *testing.T) {
	t.Parallel()
	kinds := map[report.Kind]int{}
	for _, e := range entrants() {
		if _, err := path.Named(e.path); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if (e.process == "") != (e.Kind == report.Direct) {
			t.Errorf("%s: process %q", e.Name, e.process)
		}
		kinds[e.Kind]++
	}
	if kinds[report.Direct] != 1 || kinds[report.Floor] != 1 || kinds[report.Measured] != 1 || kinds[report.HandWritten] < 6 {
		t.Errorf("got %v", kinds)
	}
}
