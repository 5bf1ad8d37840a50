// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// TestYAMLValues reads values of every type that the message has. want is what
// is added to the defaults, as Protobuf text.
func TestYAMLValues(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, yaml, want string }{
		{"empty file", "", ``},
		{"comments only", "# nothing\n", ``},
		{"null sections say nothing", "limits:\ntimeout: ~\ntools: null\n", ``},
		{"documents may have a mark", "---\ntrust: trusted\n", `trust: "trusted"`},
		{"duration", "timeout: 1m30s", `timeout {seconds: 90}`},
		{"fraction of a second", "timeout: 0.25s", `timeout {nanos: 250000000}`},
		{"bytes", "limits: {max_message_bytes: 4096}", `limits {max_message_bytes: 4096}`},
		{"binary size", "limits: {max_message_bytes: 4MiB}", `limits {max_message_bytes: 4194304}`},
		{"decimal size with a blank", "limits: {max_message_bytes: 2 MB}", `limits {max_message_bytes: 2000000}`},
		{"off is a word", "listeners: {listen: off}\ncatalog: {reflection: off}", `listeners {listen: "off"} catalog {reflection: "off"}`},
		{"number with a fraction", "limits: {caller_rate: {per_second: 0.5, burst: 3}}", `limits {caller_rate {per_second: 0.5 burst: 3}}`},
		{"whole number where a fraction may be", "limits: {caller_rate: {per_second: 5}}", `limits {caller_rate {per_second: 5}}`},
		{"a date is text", "server: {version: 2026-01-02}", `server {version: "2026-01-02"}`},
		{"time", "tools: [{method: a.B/C, resource: {uri_template: 'a:b', annotations: {last_modified: 2026-07-28T00:00:00Z}}}]",
			`tools {method: "a.B/C" resource {uri_template: "a:b" annotations {last_modified {seconds: 1785196800}}}}`},
		{"text block", "server:\n  instructions: |\n    one\n    two\n", `server {instructions: "one\ntwo\n"}`},
		{"list as a block", "catalog:\n  include:\n    - a.B\n    - c.*\n", `catalog {include: "a.B" include: "c.*"}`},
		{"overlay", `
tools:
  - method: shop.v1.Orders/Delete
    tool: {destructive: true, timeout: 5s, tags: [a, b], examples: [{name: e, arguments_json: '{"id": "7"}'}]}
    input_schema: {type: object, required: [id], properties: {id: {type: string, maxLength: 9007199254740992, x: 1.5, y: null, z: false}}}
  - method: shop.v1.Orders/*
    tool: {hidden: false}
`, `tools {
  method: "shop.v1.Orders/Delete"
  tool {destructive: true timeout {seconds: 5} tags: "a" tags: "b" examples {name: "e" arguments_json: "{\"id\": \"7\"}"}}
  input_schema {
    fields {key: "type" value {string_value: "object"}}
    fields {key: "required" value {list_value {values {string_value: "id"}}}}
    fields {key: "properties" value {struct_value {fields {key: "id" value {struct_value {
      fields {key: "type" value {string_value: "string"}}
      fields {key: "maxLength" value {number_value: 9007199254740992}}
      fields {key: "x" value {number_value: 1.5}}
      fields {key: "y" value {null_value: NULL_VALUE}}
      fields {key: "z" value {bool_value: false}}
    }}}}}}
  }
}
tools {method: "shop.v1.Orders/*" tool {hidden: false}}`},
		{"descriptions of arguments", `
tools:
  - method: shop.v1.Orders/*
    properties:
      order_id: The key of the order.
      order.lines.sku: "The article: its number."
`, `tools {method: "shop.v1.Orders/*" properties {key: "order_id" value: "The key of the order."} properties {key: "order.lines.sku" value: "The article: its number."}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := merged(t, "demo: true "+tt.want)
			cfg, err := load(t, config.Once, tt.yaml, nil, []string{"--demo"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, cfg.Config, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestYAMLFaults(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("{a: ", 70) + "1" + strings.Repeat("}", 70)
	tests := []struct{ name, yaml, want string }{
		{"not a mapping", "- a\n", "sidecar.yaml:1:1: must be a mapping, is a list"},
		{"a word", "hello\n", "sidecar.yaml:1:1: must be a mapping, is a string"},
		{"syntax", "trust: [\n", "sidecar.yaml:1:1: is not YAML: did not find expected node content"},
		{"tab", "log:\n\tlevel: info\n", "sidecar.yaml:2:1: is not YAML: found character that cannot start any token"},
		{"two documents", "demo: true\n---\ndemo: false\n", "sidecar.yaml:2:1: a second YAML document; one file holds one configuration"},
		{"unknown key without a likeness", "frobnicate: 1\n", "sidecar.yaml:1:1: frobnicate: unknown key"},
		{"removed", "limits: {session_idle_timeout: 5m}\n", "sidecar.yaml:1:10: limits.session_idle_timeout: removed: the id of a legacy session is valid up to an age, used or not; set max_session_age instead"},
		{"removed from the state", "state: {stream_ttl: 1h}\n", "sidecar.yaml:1:9: state.stream_ttl: removed: legacy sessions are in their ids and not stored; delete the key"},
		{"bytes of sessions", "state: {max_session_bytes: 1048576}\n", "sidecar.yaml:1:9: state.max_session_bytes: removed: legacy sessions are in their ids and not stored; delete the key"},
		{"bytes of streams", "state: {max_stream_bytes: 1048576}\n", "sidecar.yaml:1:9: state.max_stream_bytes: removed: legacy sessions are in their ids and not stored; delete the key"},
		{"camel case", "limits: {maxJsonDepth: 5}\n", "sidecar.yaml:1:10: limits.maxJsonDepth: unknown key; did you mean max_json_depth?"},
		{"an inner key", "log:\n  levle: info\n", "sidecar.yaml:2:3: log.levle: unknown key; did you mean level?"},
		{"repeated key", "trust: trusted\ntrust: trusted\n", "sidecar.yaml:2:1: trust: is here already in line 1"},
		{"repeated key in another form", "trust: trusted\n\"tr\\u0075st\": untrusted\n", "sidecar.yaml:2:1: trust: is here already in line 1"},
		{"key that is no name", "{[a]: 1}\n", "sidecar.yaml:1:2: keys must be plain names"},
		{"alias", "server: {name: &n x, title: *n}\n", "sidecar.yaml:1:29: server.title: aliases (*n) are not supported; write the value out"},
		{"merge", "log: {<<: {level: info}}\n", "sidecar.yaml:1:7: log: keys must be plain names"},
		{"alias as a section", "limits: &l {}\nlog: *l\n", "sidecar.yaml:2:6: log: aliases (*l) are not supported; write the value out"},
		{"nested without end", "tools: [{method: a.B/C, input_schema: " + deep + "}]\n", "is nested deeper than 64 levels"},
		{"argument without a description", "tools: [{method: a.B/C, properties: {id: ''}}]\n", `sidecar.yaml:1:42: tools[0].properties["id"]: must be at least 1 characters, is ""`},
		{"path of an argument with a blank", "tools: [{method: a.B/C, properties: {a b: c}}]\n", `tools[0].properties["a b"]`},
		{"path of an argument without a name", "tools: [{method: a.B/C, properties: {a..b: c}}]\n", `tools[0].properties["a..b"]`},
		{"argument twice", "tools: [{method: a.B/C, properties: {id: a, id: b}}]\n", "sidecar.yaml:1:45: tools[0].properties.id: is here already in line 1"},
		{"a list for descriptions", "tools: [{method: a.B/C, properties: [id]}]\n", "tools[0].properties: must be a mapping, is a list"},
		{"list for a word", "trust: [trusted]\n", "sidecar.yaml:1:8: trust: must be a string, is a list"},
		{"section for a word", "trust: {a: b}\n", "sidecar.yaml:1:8: trust: must be a string, is a mapping"},
		{"word for a list", "catalog: {include: a.B}\n", "sidecar.yaml:1:20: catalog.include: must be a list, is a string"},
		{"word for a section", "limits: none\n", "sidecar.yaml:1:9: limits: must be a mapping, is a string"},
		{"word for a switch", "deterministic: on\n", `sidecar.yaml:1:16: deterministic: must be true or false, is a string: "on"`},
		{"number for a switch", "deterministic: 1\n", "sidecar.yaml:1:16: deterministic: must be true or false, is a number"},
		{"fraction for a number", "limits: {max_json_depth: 5.0}\n", `sidecar.yaml:1:26: limits.max_json_depth: must be a whole number in decimal digits, is "5.0"`},
		{"octal to some", "limits: {max_json_depth: 010}\n", `sidecar.yaml:1:26: limits.max_json_depth: must be a whole number in decimal digits, is "010"`},
		{"hexadecimal", "limits: {max_json_depth: 0x10}\n", `sidecar.yaml:1:26: limits.max_json_depth: must be a whole number in decimal digits, is "0x10"`},
		{"beyond 32 bits", "limits: {max_json_depth: 4294967360}\n", `sidecar.yaml:1:26: limits.max_json_depth: is out of range: "4294967360"`},
		{"beyond 64 bits with its unit", "limits: {max_message_bytes: 9223372036854775807KiB}\n", `sidecar.yaml:1:29: limits.max_message_bytes: is out of range: "9223372036854775807KiB"`},
		{"unknown unit", "limits: {max_message_bytes: 4 apples}\n", `sidecar.yaml:1:29: limits.max_message_bytes: must be a number of bytes, or a size such as "4MiB", is "4 apples"`},
		{"not a number", "limits: {caller_rate: {per_second: .nan}}\n", `sidecar.yaml:1:36: limits.caller_rate.per_second: must be a number, is ".nan"`},
		{"duration without a unit", "timeout: 30\n", `sidecar.yaml:1:10: timeout: must be a duration with its unit, such as "30s" or "1m30s", is "30"`},
		{"zero without a unit", "limits: {catalog_wait: 0}\n", `sidecar.yaml:1:24: limits.catalog_wait: must be a duration with its unit, such as "30s" or "1m30s", is "0"`},
		{"a date for a time", "tools: [{method: a.B/C, resource: {uri_template: 'a:b', annotations: {last_modified: 2026-07-28}}}]",
			`tools[0].resource.annotations.last_modified: must be a time such as "2026-07-28T00:00:00Z", is "2026-07-28"`},
		{"negative duration", "timeout: -1s\n", "sidecar.yaml:1:10: timeout: must be above 0s and at most 86400s, is -1s"},
		{"null in a list", "catalog: {include: [~]}\n", "sidecar.yaml:1:21: catalog.include[0]: must be a string, is null"},
		{"unknown tag", "trust: !secret x\n", `sidecar.yaml:1:8: trust: must be a string, is of the type "!secret"`},
		{"what is required", "tools:\n  - tool: {hidden: true}\n", "sidecar.yaml:2:5: tools[0].method: must be set"},
		{"the same method twice", "tools: [{method: a.B/C}, {method: a.B/C}]\n", "sidecar.yaml:1:1: tools: two entries of tools name the same method"},
		{"items are counted as they are written", "tools:\n  - 5\n  - method: a b\n", "sidecar.yaml:3:13: tools[1].method: does not match"},
		{"integer that a double cannot hold", "tools: [{method: a.B/C, input_schema: {maximum: 9007199254740993}}]\n",
			`sidecar.yaml:1:49: tools[0].input_schema["maximum"]: is too large to be kept exactly; write it as a string`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, config.Once, tt.yaml, nil, []string{"--demo"})
			got := faults(t, err)
			if !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte("# "+strings.Repeat("x", config.MaxFileBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "--config: cannot read the configuration file: open ",
		dir:                             "--config: cannot read the configuration file: read ",
		large:                           "is larger than 1048576 bytes",
	} {
		_, err := load(t, config.Serve, "", nil, []string{"--config", name})
		if got := faults(t, err); !strings.Contains(got, want) || strings.Contains(got, "no tool service") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTheFileBoundIsSettable(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte("demo: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.RegisterFlags(flags, config.Serve)
	if err := flags.Parse([]string{"--config", name}); err != nil {
		t.Fatal(err)
	}
	for bound, fits := range map[int64]bool{10: false, 11: true} {
		if _, err := config.Load(config.Serve, flags, nil, config.Options{MaxFileBytes: bound}); (err == nil) != fits {
			t.Errorf("bound %d: %v", bound, err)
		}
	}
}

// merged puts a Config in Protobuf text on top of the defaults.
func merged(t testing.TB, text string) *configv1.Config {
	t.Helper()
	over := &configv1.Config{}
	if err := prototext.Unmarshal([]byte(text), over); err != nil {
		t.Fatal(err)
	}
	// Merge would add seconds and nanos up.
	cfg := config.Defaults(config.Once)
	if over.GetTimeout() != nil {
		cfg.Timeout = nil
	}
	proto.Merge(cfg, over)
	return cfg
}

// FuzzLoad holds Load to its promise for any file: no panic, an *Error or a
// configuration, and every fault of the file with its line.
func FuzzLoad(f *testing.F) {
	ten, err := os.ReadFile("testdata/ten_faults.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(ten), "", "demo: true", "a: &a [*a]", "? [a]\n: b", "tools: [{method: a.B/C, input_schema: {a: [1, {b: ~}]}}]",
		"limits: {max_message_bytes: 4MiB}", "---\n---\n", "%YAML 9.9\n---\n", "\xff\xfea\x00", "trust: !!binary aGk=", "<<: {}", "limits:\n\t- x",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Serve, nil, []string{"OUTRIGGER_CONFIG=" + name}, config.Options{})
		var e *config.Error
		switch {
		case err == nil && cfg == nil:
			t.Fatal("neither a configuration nor an error")
		case err == nil:
			return
		case !errors.As(err, &e) || len(e.Faults) == 0:
			t.Fatalf("%T: %v", err, err)
		}
		for _, fault := range e.Faults {
			if strings.ContainsAny(fault.String(), "\n\r") {
				t.Errorf("a fault of several lines: %q", fault)
			}
			if fault.Source == name && fault.Line < 1 && !strings.Contains(fault.Message, "is not YAML") {
				t.Errorf("a fault without its line: %s", fault)
			}
		}
	})
}

// TestEachBackendIsLikeTheOnlyOne: it has the defaults of the only one, its own sources, and shares all else.
func TestEachBackendIsLikeTheOnlyOne(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(name, []byte(`
backends:
- {name: a, url: "grpc://127.0.0.1:1", probe_timeout: 3s, descriptors: [a.binpb], reflection: "on", metadata: {static: {x-key: "hunter2"}}}
- {name: b, url: "grpc://127.0.0.1:2", prefix: b, native: "off"}
services: {shop.v2.Shop: shop2}
timeout: 7s
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Serve, nil, []string{"OUTRIGGER_CONFIG=" + name}, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts := config.Backends(cfg.Config)
	if len(parts) != 2 || cfg.GetServices()["shop.v2.Shop"] != "shop2" {
		t.Fatalf("%d backends, services %v", len(parts), cfg.GetServices())
	}
	a, b, only := parts[0], parts[1], config.Defaults(config.Serve)
	if got := a.GetBackend().GetProbeTimeout().AsDuration(); got != 3*time.Second {
		t.Errorf("its own setting is %v", got)
	}
	if !proto.Equal(b.GetBackend().GetConnectTimeout(), only.GetBackend().GetConnectTimeout()) || !slices.Equal(b.GetBackend().GetMetadata().GetInbound(), only.GetBackend().GetMetadata().GetInbound()) ||
		b.GetBackend().GetIdentity().GetMode() != only.GetBackend().GetIdentity().GetMode() {
		t.Errorf("the defaults of the only backend are not those of one of several: %v", b.GetBackend())
	}
	if !slices.Equal(a.GetCatalog().GetDescriptors(), []string{"a.binpb"}) || a.GetCatalog().GetReflection() != "on" || a.GetCatalog().GetNative() != "auto" ||
		len(b.GetCatalog().GetDescriptors()) != 0 || b.GetCatalog().GetReflection() != "auto" || b.GetCatalog().GetNative() != "off" {
		t.Errorf("sources: %v, %v", a.GetCatalog(), b.GetCatalog())
	}
	if a.GetTimeout() != cfg.GetTimeout() || a.GetLimits() != cfg.GetLimits() || a.GetCatalog().GetMaxBackoff() != cfg.GetCatalog().GetMaxBackoff() {
		t.Error("what all have in common is copied")
	}
	var found []string
	config.EachBackend(func(c *configv1.Config, report func(path, message string)) {
		report("backend.url", c.GetBackend().GetName())
		report("catalog.descriptors[0]", "missing")
		report("catalog.fetch_ca_file", "missing")
	})(cfg.Config, func(path, message string) { found = append(found, path+": "+message) })
	want := []string{"backends[0].url: a", "backends[0].descriptors[0]: missing", "catalog.fetch_ca_file: missing", "backends[1].url: b", "backends[1].descriptors[0]: missing"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
