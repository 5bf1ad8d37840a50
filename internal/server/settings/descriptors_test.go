// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
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
		cfg := &configv1.Config{Catalog: tt.catalog}
		sources, _, err := settings.Plan(cfg, settings.Origins{Client: client})
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
		if got := settings.AsksNative(tt.catalog, true); got != tt.native {
			t.Errorf("%s: asks for its own tools: %v", tt.name, got)
		}
		if got := settings.DescriptorFiles(cfg); !slices.Equal(got, tt.files) {
			t.Errorf("%s: files to watch %q, want %q", tt.name, got, tt.files)
		}
	}
	_, _, err = settings.Plan(&configv1.Config{Catalog: &configv1.Catalog{Descriptors: []string{"ftp://example.com/"}}}, settings.Origins{Client: client})
	if err == nil || !strings.Contains(err.Error(), `catalog.descriptors: descriptors cannot be fetched by "ftp"`) {
		t.Errorf("error %v", err)
	}
}

// TestHowServersAreReached: the settings arrive, and files that cannot be used are named before anything is fetched.
func TestHowServersAreReached(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("files.example.com bearer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Defaults(config.Once)
	cfg.Catalog.Descriptors = []string{"https://files.example.com/api.binpb"}
	cfg.Catalog.FetchCaFile, cfg.Catalog.FetchCredentialsFile, cfg.Catalog.FetchDockerHelpers = file, file, true
	want := source.FetchOptions{CAFile: file, CredentialsFile: file, RunsHelpers: true}
	if got := settings.FetchOptions(cfg.Catalog); got != want {
		t.Errorf("%+v", got)
	}
	err := config.Verify(config.Once, cfg, config.Options{Checks: settings.Checks(config.Once)})
	for _, part := range []string{"catalog.fetch_ca_file: CA file " + file + ": contains no certificate", "catalog.fetch_credentials_file: credentials: " + file + ":1: want a line"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}
