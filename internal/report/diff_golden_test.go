// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

//go:generate testdata/build.sh

var update = flag.Bool("update", false, "rewrite the goldens")

// load builds the catalog of a descriptor set under testdata.
func load(t testing.TB, name string) *catalog.Catalog {
	t.Helper()
	loaded, err := source.NewDescriptorFile(filepath.Join("testdata", name), source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGolden compares a service with itself a year later, in every form of report. The changes are described in the
// sources of the descriptor sets, so the goldens can be read against them.
func TestGolden(t *testing.T) {
	t.Parallel()
	r := Compare(FromCatalog(load(t, "v1.binpb.gz")), FromCatalog(load(t, "v2.binpb.gz")), DiffLimits{})
	for name, write := range map[string]func(io.Writer) error{
		"library.txt": r.WriteText, "library.md": r.WriteMarkdown, "library.json": r.WriteJSON,
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFromCatalogIsWhatToolsPrint guards that a file of `sidecar tools --json` and the catalog itself compare alike.
func TestFromCatalogIsWhatToolsPrint(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v1.binpb.gz", "v2.binpb.gz"} {
		c := load(t, name)
		var list bytes.Buffer
		for i, tool := range c.Tools() {
			list.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
			list.Write(dialect.ToolJSON(tool))
		}
		list.WriteByte(']')
		printed, err := ReadTools(list.Bytes(), DiffLimits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(FromCatalog(c), printed); diff != "" {
			t.Errorf("%s (-catalog +printed):\n%s", name, diff)
		}
	}
}
