// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/registry/pkg/model"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// registrySchema compiles the schema of server.json that the registry itself validates with, out of its module.
func registrySchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/registry").Output()
	if err != nil {
		t.Fatalf("find the registry's module: %v", err)
	}
	path := filepath.Join(strings.TrimSpace(string(dir)), "internal", "validators", "schemas", model.CurrentSchemaVersion+".json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(model.CurrentSchemaURL, text); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(model.CurrentSchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestServerJSONIsWhatTheRegistryTakes validates what `sidecar server-json` prints.
func TestServerJSONIsWhatTheRegistryTakes(t *testing.T) {
	t.Parallel()
	schema := registrySchema(t)
	digests := map[string]bool{}
	for name, flags := range map[string][]string{
		"defaults":       {"--name", "com.example/fleet"},
		"shortest":       {"--name", "a/b", "--version", "1", "--description", "x"},
		"longest":        {"--name", "com.example/" + strings.Repeat("s", 188), "--description", strings.Repeat("é", 100), "--version", strings.Repeat("1", 255)},
		"two URLs":       {"--name", "com.example/fleet", "--url", "https://a.example/mcp", "--url", "https://b.example:8443/mcp"},
		"fewer tools":    {"--name", "com.example/fleet", "--exclude", "lab.*"},
		"an image":       {"--name", "com.example/fleet", "--oci", "ghcr.io/example/fleet:1.4.2@sha256:" + strings.Repeat("0", 64), "--url", "https://a.example/mcp"},
		"all characters": {"--name", "io.github.a-b/Shop_v1.2-x", "--version", "2.1.0-alpha+build.7", "--description", `Quotes "this", <that> & the rest.`},
	} {
		out, err := exec.CommandContext(t.Context(), built.binary, append([]string{"server-json", "--demo"}, flags...)...).Output()
		if err != nil {
			var exit *exec.ExitError
			errors.As(err, &exit)
			t.Fatalf("%s: %v\n%s", name, err, exit.Stderr)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(out)) // which refuses a second one
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		var got struct {
			Schema   string `json:"$schema"`
			Packages []model.Package
			Remotes  []model.Transport
			Meta     map[string]json.RawMessage `json:"_meta"`
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: more than one document:\n%s", name, out)
		}
		if got.Schema != model.CurrentSchemaURL {
			t.Errorf("%s: $schema is %s, the registry's is %s", name, got.Schema, model.CurrentSchemaURL)
		}
		if (len(got.Packages) == 1) != (name == "an image") {
			t.Errorf("%s: packages %+v", name, got.Packages)
		}
		for _, p := range got.Packages { // the registry refuses images with a version, a sum or a base URL beside the identifier
			if p.RegistryType != model.RegistryTypeOCI || p.Transport.Type != model.TransportTypeStdio || p.Version != "" || p.FileSHA256 != "" || p.RegistryBaseURL != "" {
				t.Errorf("%s: package %+v", name, p)
			}
		}
		for _, remote := range got.Remotes {
			if remote.Type != model.TransportTypeStreamableHTTP {
				t.Errorf("%s: remote of type %s", name, remote.Type)
			}
		}
		own := got.Meta["io.modelcontextprotocol.registry/publisher-provided"]
		if len(got.Meta) != 1 || len(own) == 0 || len(own) > 4096 {
			t.Errorf("%s: _meta is %v", name, got.Meta)
		}
		digests[string(own)] = true
	}
	if len(digests) != 2 { // of all tools, and of fewer
		t.Errorf("%d digests for two catalogs", len(digests))
	}
	// The test can fail: what the command refuses, the schema refuses too.
	for _, bad := range []string{
		`{"name":"shop","description":"x","version":"1"}`, `{"name":"a/b","description":"","version":"1"}`,
		`{"name":"a/b","description":"x","version":"1","remotes":[{"type":"http","url":"https://a.example"}]}`, `{"name":"a/b","description":"x"}`,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(document) == nil {
			t.Errorf("the schema takes %s", bad)
		}
	}
}
