// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/outrigger-mcp/outrigger/conformance/corpus/recall"
	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// apis are the packages of each catalog.
func apis() map[string][]string {
	return map[string][]string{
		"openfga":    {"openfga.v1"},
		"etcd":       {"etcdserverpb"},
		"temporal":   {"temporal.api.workflowservice.v1", "temporal.api.operatorservice.v1"},
		"bigtable":   {"google.bigtable.v2", "google.bigtable.admin.v2"},
		"googleapis": {"google.pubsub.v1", "google.logging.v2", "google.monitoring.v3", "google.container.v1", "google.spanner.v1", "google.spanner.admin.instance.v1", "google.spanner.admin.database.v1"},
	}
}

// catalogOf is the catalog of the services of some packages.
func catalogOf(t testing.TB, packages []string, comments *commentReader) *catalog.Catalog {
	t.Helper()
	return liveOf(t, packages, comments).Current()
}

// liveOf is that of a sidecar. Without comments, the descriptors are as reflection has them.
func liveOf(t testing.TB, packages []string, comments *commentReader) *catalog.Live {
	t.Helper()
	return liveWith(t, packages, comments, catalog.BuildOptions{})
}

func liveWith(t testing.TB, packages []string, comments *commentReader, build catalog.BuildOptions) *catalog.Live {
	t.Helper()
	set, services, err := sources.Registered(packages...)
	if err != nil {
		t.Fatal(err)
	}
	if comments != nil {
		for _, file := range set.GetFile() {
			comments.comment(t, file)
		}
	}
	live := catalog.NewLive([]source.Source{source.NewDescriptors("corpus", set, services...)}, catalog.LiveOptions{Build: build})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live
}

// query is one line of the published set.
type query struct {
	Query   string   `json:"query"`
	Methods []string `json:"methods"`
}

// isFigure reports whether the query is of the half that nothing was tuned on.
func (q query) isFigure() bool { return sha256.Sum256([]byte(q.Query))[0]&0x80 != 0 }

func queriesOf(t testing.TB, name string) []query {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "search", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []query
	for line := range bytes.Lines(raw) {
		var q query
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
	return out
}

// simple is the method of a tool as the queries have it.
func simple(t *catalog.Tool) string {
	return t.Method.Procedure[strings.LastIndexByte(t.Method.Procedure, '.')+1:]
}

// rank is the place of the first tool that the query means; 0 if there is none among them.
func rank(q query, found []*catalog.Tool) int {
	return 1 + slices.IndexFunc(found, func(t *catalog.Tool) bool { return slices.Contains(q.Methods, simple(t)) })
}

// figure is how many queries have one of their methods at the first place, and among the first three.
type figure struct{ queries, first, third int }

func (f *figure) add(r int) {
	f.queries++
	if r == 1 {
		f.first++
	}
	if r >= 1 && r <= 3 {
		f.third++
	}
}

func (f figure) at1() float64 { return 100 * float64(f.first) / float64(f.queries) }
func (f figure) at3() float64 { return 100 * float64(f.third) / float64(f.queries) }

func (f figure) String() string {
	return fmt.Sprintf("%d queries, R@1 %.1f %%, R@3 %.1f %%", f.queries, f.at1(), f.at3())
}

// TestRecall measures both halves of the queries, with descriptors that have comments, and as reflection has them. The half
// that nothing was tuned on has the published figures. What is not found at the first place is for the log.
func TestRecall(t *testing.T) {
	comments := newCommentReader()
	for _, form := range []struct {
		name             string
		comments         *commentReader
		wantAt1, wantAt3 float64
	}{
		{"reflection", nil, 79, 95},
		{"with comments", comments, 82, 96},
	} {
		t.Run(form.name, func(t *testing.T) {
			taught := map[string]*figure{"more": {}, "hard": {}}
			halves := map[bool]*figure{false: {}, true: {}}
			for _, name := range slices.Sorted(maps.Keys(apis())) {
				x := compact.NewIndex(catalogOf(t, apis()[name], form.comments))
				here := map[bool]*figure{false: {}, true: {}}
				for set, sum := range taught {
					for _, q := range queriesOf(t, set+"/"+name) {
						sum.add(rank(q, x.Search(q.Query, 10, nil)))
					}
				}
				for _, q := range queriesOf(t, name) {
					found := x.Search(q.Query, 10, nil)
					r := rank(q, found)
					here[q.isFigure()].add(r)
					halves[q.isFigure()].add(r)
					if r != 1 && !q.isFigure() {
						t.Logf("%s: %q is at %d; first is %s", name, q.Query, r, first(found))
					}
				}
				t.Logf("%s: tuning half: %v; figure: %v", name, here[false], here[true])
			}
			figure := halves[true]
			t.Logf("more queries for tuning: %v; hard ones: %v", taught["more"], taught["hard"])
			t.Logf("all: tuning half: %v; figure: %v", halves[false], figure)
			if figure.at1() < form.wantAt1 || figure.at3() < form.wantAt3 {
				t.Errorf("%v; it was at least %.0f %% and %.0f %%", figure, form.wantAt1, form.wantAt3)
			}
		})
	}
}

func first(found []*catalog.Tool) string {
	if len(found) == 0 {
		return "none"
	}
	return simple(found[0])
}
