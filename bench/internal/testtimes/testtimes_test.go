// SPDX-License-Identifier: Apache-2.0

package testtimes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const run = `{"Action":"run","Package":"github.com/outrigger-mcp/outrigger/bridge","Test":"TestFlight"}
{"Action":"pass","Package":"github.com/outrigger-mcp/outrigger/bridge","Test":"TestFlight/row","Elapsed":11}
{"Action":"pass","Package":"github.com/outrigger-mcp/outrigger/bridge","Test":"TestFlight","Elapsed":12}
{"Action":"fail","Package":"github.com/outrigger-mcp/outrigger/bridge","Elapsed":14.5}
# a build that failed
{"Action":"pass","Package":"github.com/outrigger-mcp/outrigger/internal/catalog/glob","Elapsed":0.001}
{"Action":"skip","Package":"github.com/outrigger-mcp/outrigger/internal/demo","Elapsed":0}
{"Action":"pass","Package":"github.com/outrigger-mcp/outrigger","Test":"TestTools","Elapsed":0.6}
{"Action":"pass","Package":"github.com/outrigger-mcp/outrigger","Elapsed":0.7}
`

func TestRead(t *testing.T) {
	t.Parallel()
	var got Times
	if err := got.Read(strings.NewReader(run)); err != nil {
		t.Fatal(err)
	}
	want := Times{
		Packages: map[string]float64{"bridge": 14.5, ".": 0.7},
		Tests:    map[string]float64{"bridge.TestFlight": 12, "..TestTools": 0.6},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	kept := got.Record()
	if diff := cmp.Diff(Times{Packages: map[string]float64{"bridge": 14.5}, Tests: map[string]float64{"bridge.TestFlight": 12}}, kept); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
	if table := got.Table(kept); !strings.Contains(table, "12.0 s  bridge.TestFlight  (12 s on record)") || !strings.Contains(table, "0.7 s  .\n") {
		t.Errorf("the table is\n%s", table)
	}
}

// What doubled is measured against a machine as busy as this one, and not below the floor.
func TestDoubled(t *testing.T) {
	t.Parallel()
	recorded := Times{Packages: map[string]float64{"odd": 10, "short": 1}, Tests: map[string]float64{"odd.TestIt": 8}}
	for i := range 9 {
		recorded.Packages[fmt.Sprint("p", i)] = 10
	}
	for _, row := range []struct {
		name               string
		machine, odd, test float64
		short              float64
		want               []Slow
	}{
		{name: "as on record", machine: 1, odd: 10, test: 8, short: 1},
		{name: "a slow machine", machine: 3, odd: 45, test: 40, short: 9},
		{name: "a fast machine", machine: 0.5, odd: 19, test: 8, short: 1},
		{name: "one has doubled", machine: 1, odd: 21, test: 17, short: 9, want: []Slow{{"odd", 21, 10, 15}, {"odd.TestIt", 17, 8, 12}}},
		{name: "one has doubled on a slow machine", machine: 1.4, odd: 29, test: 8, short: 1, want: []Slow{{"odd", 29, 10, 15}}},
		{name: "one has doubled on a busy machine", machine: 2, odd: 41, test: 8, short: 1},
		{name: "beyond the floor", machine: 1, odd: 10, test: 8, short: 11, want: []Slow{{"short", 11, 1, 7.5}}},
	} {
		now := Times{Packages: map[string]float64{"odd": row.odd, "short": row.short, "new": 100}, Tests: map[string]float64{"odd.TestIt": row.test}}
		for i := range 9 {
			now.Packages[fmt.Sprint("p", i)] = 10 * row.machine
		}
		if diff := cmp.Diff(row.want, now.Doubled(recorded)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
	few := Times{Packages: map[string]float64{"odd": 100, "p0": 10}}
	if got := few.Doubled(recorded); got != nil {
		t.Errorf("with all others in the cache: %v", got)
	}
}
