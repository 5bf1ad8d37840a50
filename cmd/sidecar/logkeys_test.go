// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLogKeysAreDocumented compares the keys of what the process logs with the tables of docs/log.md.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/log.md")
	if err != nil {
		t.Fatal(err)
	}
	known, all := map[string]bool{"level": true, "ts": true, "msg": true, "logger": true}, []string{}
	for i, part := range strings.Split(string(page), "<!-- keys of the log -->\n")[1:] {
		table, _, _ := strings.Cut(part, "<!-- end -->")
		for line := range strings.Lines(table) {
			for _, key := range regexp.MustCompile("`([a-z0-9._]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				known[key[1]] = true
				if i == 0 {
					all = append(all, key[1])
				}
			}
		}
	}
	config := filepath.Join(t.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(config, []byte("telemetry: {traces: \"on\", endpoint: \"http://127.0.0.1:9\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--demo", "--log-level", "debug", "--config", config)
	seen := map[string]bool{}
	until := func(message string) {
		t.Helper()
		for {
			l := p.await(t, "")
			var fields map[string]any
			if err := json.Unmarshal(l.raw, &fields); err != nil {
				t.Fatal(err)
			}
			for key := range fields {
				seen[key] = true
				if !known[key] {
					t.Errorf("docs/log.md does not have the key %q: %s", key, l.raw)
				}
			}
			if l.Message == message {
				return
			}
		}
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":7}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND"}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.fail","arguments":{"code":"FAIL_CODE_UNAVAILABLE"}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"no.such_tool","arguments":{}}}`,
	} {
		postRPC(t, p.main, body)
		until("call")
	}
	postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"nonsense","params":{}}`)
	until("message refused")
	for _, key := range all {
		switch key {
		case "rpc.method", "policy_rule", "outrigger.operator": // of other edges, of a policy, and of the console
		default:
			if !seen[key] {
				t.Errorf("no line has %q", key)
			}
		}
	}
}
