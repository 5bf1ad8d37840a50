// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"testing"
)

// TestX tries.
func TestX(t *testing.T) {
	b := compactBridge(t)
	for _, src := range []string{
		`"result = lab.echo(nonce=\"n\", signed=5).signed"`,
		`"result = [x.nonce for x in parallel([lab.echo(nonce=str(i)) for i in range(3)])]"`,
		`"x = lab.fail(code=5)\nresult=1"`,
		`"result = fleet.list_vehicles()"`,
		`"result = lab.nothing()"`,
	} {
		resp := b.Handle(t.Context(), toolCall(b, "catalog.run", `{"program":`+src+`}`))
		t.Logf("%v %s\n", resp.Err, string(resp.Result))
		if resp.Err != nil {
			t.Logf("%s %s", resp.Err.Partial, resp.Err.Violations)
		}
	}
	t.Log(string(replyTo(t.Context(), t, b, 0, "tools/list", "")))
}
