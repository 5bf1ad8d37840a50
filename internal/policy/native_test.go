// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// newNative returns a tool whose arguments are described by a JSON schema.
func newNative(text string) *catalog.Tool {
	return &catalog.Tool{Name: "desk.pay", Native: true, Input: schema.Fixed(&schema.Schema{Canonical: []byte(text)})}
}

const paySchema = `{"type":"object","properties":{
	"amount":{"type":"integer"},"rate":{"type":"number"},"to":{"type":"string"},"now":{"type":"boolean"},
	"lines":{"type":"array","items":{"type":"object","properties":{"units":{"type":"integer"}},"additionalProperties":false}},
	"free":{"type":"object"},"any":{},"either":{"type":["string","null"]},
	"odd":{"type":"object","properties":{"a-b":{"type":"string"}}}}}`

// TestNativeArguments: conditions on JSON, typed as far as the schema says.
func TestNativeArguments(t *testing.T) {
	t.Parallel()
	tool := newNative(paySchema)
	const arguments = `{"amount":9007199254740993,"rate":0.5,"to":"a","now":true,"lines":[{"units":1},{"units":2}],
		"free":{"n":18446744073709551615,"m":1.5,"deep":{"x":[null]}},"any":7,"either":null,"odd":{"a-b":"c"},"more":3}`
	for when, want := range map[string]bool{
		`args.amount == 9007199254740993`:                true,
		`args.amount == 9007199254740992`:                false,
		`args.rate < 1 && args.rate == 0.5`:              true,
		`args.to == "a" && args.now`:                     true,
		`args.lines.all(l, l.units < 3)`:                 true,
		`args.free.n == 18446744073709551615u`:           true,
		`args.free.m > 1 && args.free.deep.x[0] == null`: true,
		`args.any == 7 && args.any < 7.5`:                true,
		`args.either == null`:                            true,
		`args.odd["a-b"] == "c"`:                         true,
		`args.more == 3`:                                 true, // other members are not forbidden
		`has(args.missing)`:                              false,
		`!has(args.missing) && has(args.amount)`:         true,
		`args.missing == 1`:                              false, // fails
		`args.any.x == 1`:                                false, // fails
	} {
		engine := policy.NewEngine(compile(t, allow("a", when, "desk.*")))
		if _, _, err := engine.MayCall(nil, tool, []byte(arguments)); (err == nil) != want {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	for text, want := range map[string]bool{
		`{"amount":5}`: true, `{"amount":5.0}`: true, `{"amount":5e0}`: true, `{"amount":5.5}`: false, `{"amount":99999999999999999999}`: false, `{}`: false, `[]`: false, `{"amount":5} 1`: false,
	} {
		engine := policy.NewEngine(compile(t, allow("a", `args.amount == 5`, "*")))
		if _, _, err := engine.MayCall(nil, tool, []byte(text)); (err == nil) != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// TestNativeTypes: faults that the schema shows.
func TestNativeTypes(t *testing.T) {
	t.Parallel()
	for when, fits := range map[string]bool{
		`args.amount < 5`:               true,
		`args.amount == "5"`:            false,
		`args.to > 5`:                   false,
		`args.lines.all(l, l.unit < 3)`: false,
		`args.lines == 1`:               false,
		`args.either == 1`:              true,
		`args.unknown == 1`:             true,
	} {
		engine := policy.NewEngine(compile(t, allow("a", when, "desk.*")))
		rule, _, err := engine.MayCall(nil, newNative(paySchema), []byte(`{}`))
		if broken := engine.MayUse(nil, newNative(paySchema)) != nil; broken == fits || rule != "a" || err == nil {
			t.Errorf("%s: %v, %v", when, broken, err)
		}
	}
	for text, want := range map[string]string{
		`{"type":"object"}`: "map(string, dyn)", `{}`: "map(string, dyn)", ``: "map(string, dyn)", `true`: "map(string, dyn)",
		`{"type":"object","properties":{"a":{}}}`: "#args",
	} {
		if got := policy.ArgumentsType(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
