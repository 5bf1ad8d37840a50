// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// BenchmarkMayCall is one decision by one rule: the time of the rule is what it costs above "none", and of the message
// above "caller".
func BenchmarkMayCall(b *testing.B) {
	tool := lookup(b, newBank(b), "bank.send")
	arguments, who := wire(b, tool, someTransfer), somebody()
	for _, tt := range []struct{ name, when string }{
		{"caller", `"refunds" in caller.groups`},
		{"amount", `args.amount.units < 1000`},
		{"both", `args.amount.units < 1000 && "refunds" in caller.groups`},
		{"lines", `args.lines.all(l, l.units < 3)`},
	} {
		engine := policy.NewEngine(compile(b, allow("a", tt.when, "*")))
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := engine.MayCall(who, tool, arguments); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	engine := policy.NewEngine(compile(b, allow("a", "true", "other.*")))
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := engine.MayCall(who, tool, arguments); err != nil {
				b.Fatal(err)
			}
		}
	})
}
