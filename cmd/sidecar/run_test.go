// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun drives the process without being one: exit codes, and which stream
// says what.
func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		args           []string
		environ        []string
		code           int
		stdout, stderr string // parts; empty for silence
	}{
		{"version", []string{"version"}, nil, 0, "contract outrigger.v1", ""},
		{"help", []string{"serve", "--help"}, nil, 0, "--backend URL", ""},
		{"help of an unknown flag's command", []string{"call", "-x"}, nil, 2, "", "see `sidecar call --help`"},
		{"a flag of an earlier release", []string{"serve", "--demo", "--session-idle", "5m"}, nil, 2, "", "use --session-age instead"},
		{"no command", nil, nil, 2, "", "which command?"},
		{"unknown command", []string{"stdo"}, nil, 2, "", "did you mean stdio?"},
		{"too many arguments", []string{"doctor", "x"}, nil, 2, "", "see `sidecar doctor --help`"},
		{"faults have no prefix", []string{"tools", "--demo"}, []string{"OUTRIGGER_TIMEOUT=soon"}, 2, "", "OUTRIGGER_TIMEOUT: must be a duration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tt.args, strings.NewReader(""), &stdout, &stderr, tt.environ)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for stream, got := range map[string]struct{ got, want string }{
				"stdout": {stdout.String(), tt.stdout}, "stderr": {stderr.String(), tt.stderr},
			} {
				if (got.want == "") != (got.got == "") || !strings.Contains(got.got, got.want) {
					t.Errorf("%s is %q, want %q", stream, got.got, got.want)
				}
			}
		})
	}
}

// faultyConfigurations are command lines, each with an environment and the file sidecar.yaml, that no command takes.
func faultyConfigurations() []struct{ args, environ, yaml string } {
	type row = struct{ args, environ, yaml string }
	var out []row
	for _, args := range []string{
		"serve", "tools", "serve --demo --backend http://127.0.0.1:1", "serve --backend 127.0.0.1:50051", "serve --backend ftp://user:secret@host", "serve --demo --listen 8080",
		"serve --demo --listen :8080", "serve --demo --listen unix:run/a.sock", "serve --demo --admin 0.0.0.0:9901", "serve --demo --health 127.0.0.1:8080", "stdio --demo --dialect odd",
		"serve --demo --max-depth 2", "serve --demo --max-depth 2 --max-batch 0 --timeout 0s", "serve --demo --timeout 25h", "serve --demo --timeout soon", "serve --demo --max-message-bytes 1", "serve --demo --max-message-bytes 4apples",
		"serve --demo --trust maybe", "serve --demo --gate nothing", "serve --demo --destructive perhaps", "serve --demo --validate twice", "serve --demo --validate full", "serve --demo --schema-profile lax", "serve --demo --canonical-ids all",
		"serve --demo --log-level loud", "serve --demo --log-format xml", "serve --demo --log-calls some", "serve --demo --audit-fsync often", "serve --demo --catalog-mode small", "serve --demo --output-schemas some",
		"serve --demo --catalog-lock-mode refuse", "serve --demo --caller-burst 5", "serve --demo --tool-rate 0", "serve --demo --breaker maybe", "serve --demo --max-attempts 11", "serve --demo --retry-budget 101",
		"serve --demo --metadata-in authorization", "serve --demo --trusted-callers planner", "serve --demo --allowed-origins example.com", "serve --demo --subject-header Host",
		"serve --demo --tls-cert c", "serve --demo --tls-key k", "serve --demo --tls-client-uris spiffe://a/b", "serve --backend https://a --backend-cert c",
		"serve --backend http://example.com --backend-token-file t", "serve --demo --tokens none.yaml", "serve --demo --admin-tokens none.yaml", "serve --demo --policy none.yaml", "serve --demo --catalog-lock none.json", "serve --demo --skills none",
		"serve --demo --oauth-issuer https://a", "serve --demo --oauth-resource https://a/mcp", "serve --demo --oauth-issuer login --oauth-resource https://b/mcp", "serve --demo --oauth-issuer http://a --oauth-resource https://b/mcp#x",
		"serve --demo --rate-domain x", "serve --demo --rate-service ratelimit:8081", "serve --demo --rate-failure maybe", "serve --demo --state http://n:4222", "serve --demo --state nats://me:secret@n:4222 --state-key k", "serve --demo --state nats://n",
		"serve --demo --state-key none.key", "serve --demo --state nats://n --state-key k --state-name a.b", "serve --backend http://127.0.0.1:1 --backend-identity exchange", "serve --backend http://127.0.0.1:1 --backend-identity signed",
		"serve --backend http://127.0.0.1:1 --descriptors none.binpb", "serve --backend http://127.0.0.1:1 --descriptors oci://example.com/api:v1", "serve --demo --descriptors-use comments", "serve --demo --audit-required", "stdio --demo --audit stdout",
		"serve --config none.yaml", "serve --demo --max-dept 3", "serve --demo --demo=perhaps", "call", "call lab.echo nonce=1 --demo", "serve http://127.0.0.1:1",
		"serve --mock", "serve --mock --demo", "serve --mock --backend http://127.0.0.1:1", "serve --mock --descriptors a.binpb --descriptors-use comments", "serve --mock --mock-seed -1 --descriptors a.binpb",
		"call lab.echo --mock", "serve --replay none", "serve --replay none --demo", "stdio --replay none --backend http://127.0.0.1:1", "serve --demo --replay-match exact", "serve --replay none --descriptors a.binpb --replay-match some --replay-latency slow",
	} {
		out = append(out, row{args: args})
	}
	for _, environ := range []string{"OUTRIGGER_TIMEOUT=soon", "OUTRIGGER_MAX_BATCH=many", "OUTRIGGER_DEMO=perhaps", "OUTRIGGER_LISTEN=8080", "OUTRIGGER_CONFIG=none.yaml"} {
		out = append(out, row{args: "serve --demo", environ: environ})
	}
	for _, yaml := range []string{
		"- a", "hello", "trust: [", "log:\n\tlevel: info", "demo: true\n---\ndemo: false", "frobnicate: 1", "limits:\n  maxJsonDepth: 5", "log:\n  levle: info", "trust: trusted\ntrust: trusted", "{[a]: 1}",
		"server: {name: &n x, title: *n}", "log: {<<: {level: info}}", "trust: [trusted]", "trust: {a: b}", "catalog: {include: a.B}", "limits: none", "backend: 5", "deterministic: on", "deterministic: 1", "limits: {max_json_depth: 5.0}",
		"limits: {max_json_depth: 0x10}", "limits: {max_json_depth: 4294967360}", "limits: {max_message_bytes: 4 apples}", "limits: {caller_rate: {per_second: .nan}}", "limits: {caller_rate: {burst: 3}}", "timeout: 30", "timeout: -1s", "limits: {catalog_wait: 0}",
		"catalog: {include: [~]}", "trust: !secret x", "tools:\n  - tool: {hidden: true}", "tools: [{method: a.B/C, tool: {timeout: 48h}}]", "tools: [{method: a.B/C, tool: {version: one}}]",
		"tools: [{method: a.B/C, properties: {a b: c}}]", "tools: [{method: a.B/C, input_schema: {type: nothing}}]", "tools: [{method: a.B/C, resource: {uri_template: 'a:b', annotations: {last_modified: 2026-07-28}}}]", "tools: [{method: 'a b'}]",
		"listeners:\n  listen: 10.0.0.1:80", "listeners: {tls: {min_version: '1.1'}}", "backend: {ulr: 'http://127.0.0.1:1'}", "backend:\n  metadata:\n    static: {Authorization: x}", "backend: {metadata: {inbound: [host]}}", "record: {max_files: 0}",
		"limits:\n  max_concurrent_calls: 4\n  tool_classes: [{name: a, tools: [a], reserved_calls: 4}]", "limits: {tool_classes: [{name: a, tools: [a]}, {name: a, tools: [b]}]}", "limits: {caller_classes: [{name: a, callers: [planner]}]}",
		"limits: {tool_classes: [{name: A b, tools: ['*'], weight: 0}]}", "access: {policy: {rules: [{name: a, tools: ['*'], effect: deny, when: 'args.'}]}}", "access: {policy: {rules: [{name: a, tools: ['*'], effect: maybe, when: 'true'}]}}",
		"access: {policy: {rules: [{name: a, tools: ['*'], effect: deny, when: '1'}]}}", "access: {oauth: {algorithms: [HS256]}}", "access: {oauth: {resource: 'https://b/mcp', issuers: [{url: 'https://a', introspection: {client_id: a, client_secret_file: b, ttl: 61s}}]}}",
		"access: {oauth: {resource: 'https://b/mcp', issuer_urls: ['https://a'], operation_scopes: [{operations: [dance], scopes: [a]}]}}", "telemetry: {endpoint: 'collector:4318'}", "telemetry: {sampler: often}", "telemetry: {sampler_ratio: 2}", "telemetry: {baggage: ['a b']}",
		"state: {url: 'nats://n', key_file: k, replicas: 4}", "state: {url: 'nats://n', key_file: k, lease: 2500ms}", "state: {url: 'nats://n', key_file: k, credentials_file: c, nkey_file: n}", "state: {token_file: t}", "state: {url: 'nats://n', key_file: k, password_file: p}",
		"state: {url: 'nats://n', key_file: k, tls: {cert_file: c}}", "rate_service: {max_in_flight: 7}", "rate_service: {url: 'grpcs://a:1', tls: {cert_file: c}}", "audit: {fsync_interval: 1ms}", "resilience: {retry: {max_attempts: 0}}", "reload_interval: 2h",
	} {
		out = append(out, row{args: "serve --demo --config sidecar.yaml", yaml: yaml + "\n"})
	}
	return out
}

// TestFaultyConfigurations compares what a sidecar says about configurations that are wrong, word for word, with what is on record.
func TestFaultyConfigurations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + string(filepath.Separator)
	ended, end := context.WithCancel(t.Context())
	end() // should a configuration be right
	var got strings.Builder
	for _, f := range faultyConfigurations() {
		if err := os.WriteFile(dir+"sidecar.yaml", []byte(f.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(f.args, "sidecar.yaml", dir+"sidecar.yaml"))
		code := run(ended, args, strings.NewReader(""), &stdout, &stderr, strings.Fields(f.environ))
		if code != exitUsage || stdout.Len() > 0 {
			t.Errorf("%s\n%s: exit code %d, want %d: %s%s", f.args, f.yaml, code, exitUsage, &stdout, &stderr)
		}
		fmt.Fprintf(&got, "$ %s\n%s%s\n", strings.TrimSpace(f.environ+" sidecar "+f.args), f.yaml, strings.ReplaceAll(stderr.String(), dir, ""))
	}
	onRecord(t, "faults.txt", got.String())
}
