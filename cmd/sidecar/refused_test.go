// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestRefusedCallsAreCounted calls what the gate holds back, and then more than
// a caller may, on its own sidecar each.
func TestRefusedCallsAreCounted(t *testing.T) {
	t.Parallel()
	const drop = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{}}}`
	gated := startProcess(t, "serve", "--demo")
	gated.hear(t)
	for range 3 {
		postRPC(t, gated.main, drop)
	}
	wantSample(t, gated, `outrigger_calls_refused_total{code="DESTRUCTIVE_BLOCKED",tool="fleet.cancel_order"} 3`)

	limited := startProcess(t, "serve", "--demo", "--caller-rate", "0.000001")
	limited.hear(t)
	for range 2 {
		postRPC(t, limited.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`)
		postRPC(t, limited.main, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`)
	}
	wantSample(t, limited, `outrigger_calls_refused_total{code="RATE_LIMITED",tool=""} 2`,
		`outrigger_calls_refused_total{code="RATE_LIMITED",tool="lab.echo"} 1`)
}
