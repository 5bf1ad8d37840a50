// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestWhereToolsComeFrom has a row for each mix of descriptors, reflection and the tool API.
func TestWhereToolsComeFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "api.binpb")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target, err := backend.ParseTarget("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const reflection = "reflection at grpc://127.0.0.1:1"
	inFile, inFolder, onServer := "descriptor set "+file, "descriptor folder "+dir, "descriptor set https://example.com/api.binpb"
	for _, tt := range []struct {
		name    string
		catalog *configv1.Catalog
		want    []string
		native  bool
		files   []string
	}{
		{"nothing", &configv1.Catalog{}, []string{reflection}, true, nil},
		{"a file", &configv1.Catalog{Descriptors: []string{file}}, []string{inFile}, false, []string{file}},
		{"a folder", &configv1.Catalog{Descriptors: []string{dir}}, []string{inFolder}, false, []string{file}},
		{"a server", &configv1.Catalog{Descriptors: []string{"https://example.com/api.binpb?secret"}}, []string{onServer}, false, nil},
		{"all of them, and reflection", &configv1.Catalog{Descriptors: []string{file, dir, "https://example.com/api.binpb"}, Reflection: new("on")},
			[]string{inFile, inFolder, onServer, reflection}, false, []string{file, file}},
		{"comments", &configv1.Catalog{Descriptors: []string{file, "https://example.com/api.binpb"}, DescriptorsUse: new("comments")},
			[]string{reflection + " with comments from " + inFile + ", " + onServer}, true, []string{file}},
		{"comments beside the tool API", &configv1.Catalog{Descriptors: []string{file}, DescriptorsUse: new("comments"), Native: new("on")},
			[]string{reflection + " with comments from " + inFile}, true, []string{file}},
		{"comments without descriptors", &configv1.Catalog{DescriptorsUse: new("comments")}, []string{reflection}, true, nil},
	} {
		cfg := config.Defaults(config.Serve)
		proto.Merge(cfg.GetCatalog(), tt.catalog)
		sources, _, err := upstream.Plan(cfg, upstream.Origins{Client: client})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, s := range sources {
			got = append(got, s.Name())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: sources %q, want %q", tt.name, got, tt.want)
		}
		if got := upstream.AsksNative(cfg.GetCatalog()); got != tt.native {
			t.Errorf("%s: asks for its own tools: %v", tt.name, got)
		}
		if got := source.DescriptorFiles(cfg.GetCatalog()); !slices.Equal(got, tt.files) {
			t.Errorf("%s: files to watch %q, want %q", tt.name, got, tt.files)
		}
	}
	cfg := config.Defaults(config.Serve)
	cfg.Catalog.Descriptors = []string{"ftp://example.com/"}
	_, _, err = upstream.Plan(cfg, upstream.Origins{Client: client})
	if err == nil || !strings.Contains(err.Error(), `catalog.descriptors: descriptors cannot be fetched by "ftp"`) {
		t.Errorf("error %v", err)
	}
}
