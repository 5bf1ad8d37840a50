// SPDX-License-Identifier: Apache-2.0

package picture_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/picture"
)

var update = flag.Bool("update", false, "write the golden")

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0.00012, "s", "120 µs"}, {0.25, "s", "250 ms"}, {1.5, "s", "1.5 s"}, {600, "s", "10 min"}, {10800, "s", "3 h"}, {691200, "s", "8 d"}, {0, "s", "0 s"},
		{0.0532, "percentunit", "5.32 %"}, {1, "percentunit", "100 %"},
		{1536, "bytes", "1.5 KiB"}, {10, "bytes", "10 B"}, {3 << 30, "bytes", "3 GiB"},
		{12.345, "reqps", "12.3/s"}, {0, "ops", "0/s"},
		{1234, "short", "1.23 k"}, {16, "short", "16"}, {2.5e6, "short", "2.5 M"},
		{1, "bool_yes_no", "yes"}, {0, "bool_yes_no", "no"},
	} {
		if got := picture.Format(tt.value, tt.unit); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.value, tt.unit, got, tt.want)
		}
	}
}

// TestSVG draws each kind of panel, with gaps, names that need escaping, and no data.
func TestSVG(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	w := picture.Window{From: from, To: from.Add(10 * time.Second), Step: time.Second}
	course := func(name string, query int, values map[int]float64) picture.Series {
		s := picture.Series{Name: name, Query: query, Labels: map[string]string{"instance": name}}
		for i := range 11 {
			if v, ok := values[i]; ok {
				s.Points = append(s.Points, picture.Point{At: from.Add(time.Duration(i) * time.Second), Value: v})
			}
		}
		return s
	}
	broken := map[int]float64{0: 1, 1: 2, 2: 1.5, 5: 3, 8: 1, 9: 1}
	panels := []picture.Panel{
		{ShownPanel: board.ShownPanel{Type: "row", Title: "First"}},
		{ShownPanel: board.ShownPanel{Type: "stat", Title: "Red", Unit: "percentunit", Y: 1, Width: 3, Height: 4, Warn: 0.1, Fail: 0.2}, Series: []picture.Series{course("a", 0, map[int]float64{0: 0.1, 9: 0.3})}},
		{ShownPanel: board.ShownPanel{Type: "stat", Title: "Empty", Unit: "s", X: 3, Y: 1, Width: 3, Height: 4}},
		{ShownPanel: board.ShownPanel{Type: "timeseries", Title: "Lines", Unit: "s", X: 6, Y: 1, Width: 8, Height: 8, Fail: 2}, Series: []picture.Series{course("a <b> & a name that is too long for its panel", 0, broken), course("c", 0, broken)}},
		{ShownPanel: board.ShownPanel{Type: "row", Title: "Second", Y: 9}},
		{ShownPanel: board.ShownPanel{Type: "timeseries", Title: "Areas", Unit: "short", Y: 10, Width: 8, Height: 8, IsStacked: true}, Series: []picture.Series{course("a", 0, broken), course("b", 0, broken)}},
		{ShownPanel: board.ShownPanel{Type: "row", Title: "Left out", Y: 18}},
		{ShownPanel: board.ShownPanel{Type: "timeseries", Title: "Not drawn", Y: 19, Width: 8, Height: 8}},
		{ShownPanel: board.ShownPanel{Type: "row", Title: "Third", Y: 27}},
		{
			ShownPanel: board.ShownPanel{
				Type: "table", Title: "Table", Y: 28, Width: 24, Height: 6, Units: map[string]string{"Calls": "reqps"},
				Queries: []board.ShownQuery{{Legend: "Calls"}, {Legend: "Tools"}},
			},
			Series: []picture.Series{course("x:1", 0, broken), course("x:2", 0, broken), course("x:1", 1, broken)},
		},
	}
	got := picture.SVG("Title & more", "subtitle", panels, w, "First", "Second", "Third")
	golden := filepath.Join("testdata", "panels.svg")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
	if strings.Contains(got, "Not drawn") || strings.Contains(got, "Left out") {
		t.Error("the picture has rows that it should not have")
	}
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
