// SPDX-License-Identifier: Apache-2.0

package board_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
)

var update = flag.Bool("update", false, "write the dashboards")

// TestFiles compares the dashboards with their files.
func TestFiles(t *testing.T) {
	t.Parallel()
	files := map[string]bool{}
	for _, b := range board.Boards() {
		path := filepath.Join("..", "..", "dashboards", b.File+".json")
		files[filepath.Base(path)] = true
		want, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the definitions give; make observability-generate writes it (-definitions +file):\n%s", path, diff)
		}
	}
	entries, err := os.ReadDir(filepath.Join("..", "..", "dashboards"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !files[e.Name()] {
			t.Errorf("dashboards/%s has no definition", e.Name())
		}
	}
}

// TestFilesFitGrafanasSchema reads the files with the strict reader of Grafana's schema.
func TestFilesFitGrafanasSchema(t *testing.T) {
	t.Parallel()
	for _, b := range board.Boards() {
		text, err := os.ReadFile(filepath.Join("..", "..", "dashboards", b.File+".json"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := strictly(text)
		if err != nil {
			t.Errorf("%s: %v", b.File, err)
		}
		if d.SchemaVersion == 0 || d.Uid == nil || *d.Uid != b.UID {
			t.Errorf("%s: schemaVersion %d, uid %v", b.File, d.SchemaVersion, d.Uid)
		}
		if _, err := strictly(bytes.Replace(text, []byte(`"gridPos"`), []byte(`"gridPosition"`), 1)); err == nil {
			t.Errorf("%s: the reader accepts an unknown member", b.File)
		}
	}
}

// strictly reads a dashboard. The library's reader returns an empty list of errors for none.
func strictly(text []byte) (dashboard.Dashboard, error) { //nolint:staticcheck // the format of the files
	plugins.RegisterDefaultPlugins()
	var d dashboard.Dashboard //nolint:staticcheck // the format of the files
	err := d.UnmarshalJSONStrict(text)
	var faults cog.BuildErrors
	if errors.As(err, &faults) && len(faults) == 0 {
		err = nil
	}
	return d, err
}

// TestPanelsSayWhatTheyShow holds what every panel must have.
func TestPanelsSayWhatTheyShow(t *testing.T) {
	t.Parallel()
	for _, b := range board.Boards() {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				name := b.File + ": " + row.Title + ": " + p.Title
				if p.Description == "" || p.Title == "" || len(p.Queries) == 0 {
					t.Errorf("%s: needs a title, a description and a query", name)
				}
				if p.Unit == "" && p.Kind != board.Table {
					t.Errorf("%s: has no unit", name)
				}
				for _, q := range p.Queries {
					if q.Legend == "" || p.Kind == board.Table && q.Unit == "" {
						t.Errorf("%s: %s: needs a legend, and a unit in a table", name, q.Expr)
					}
				}
			}
		}
	}
}
