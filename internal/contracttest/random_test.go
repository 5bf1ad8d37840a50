// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
)

// TestRandomEnvelopes compares the two implementations on messages whose
// members are drawn one by one: most are good JSON, and near a good envelope,
// where a fuzzer of bytes seldom gets.
func TestRandomEnvelopes(t *testing.T) {
	t.Parallel()
	var registries []*contracttest.SchemaRegistry
	for _, p := range canonicalProfiles {
		registries = append(registries, contracttest.New(nil, contracttest.Options{Envelope: p}))
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 { // one draw is cheap, and a hundred are too few
			raw := []byte(drawEnvelope(t))
			for _, r := range registries {
				compare(t, r, raw)
			}
		}
	})
}

func drawEnvelope(t *rapid.T) string {
	drawn := map[string][]string{
		"jsonrpc": {`"2.0"`, `"2.0"`, `"2.0"`, `"2\u002e0"`, `2.0`, `null`},
		"id":      {`"1"`, `"1"`, `1`, `1.0`, `null`, `"01980f6e-7c1a-7b3e-9a51-0c6d0f6f1d2e"`, `{}`},
		"method":  {`"m"`, `"m"`, `""`, `null`, `3`},
		"params":  {`{}`, `{}`, `{"a":[1e999]}`, `[]`, `null`},
		"result":  {`{}`, `null`, `1`},
		"error":   {`{"code":1,"message":"m"}`, `{"message":"m","code":-1e2,"data":null}`, `{"code":1}`, `{"code":0.5,"message":"m"}`, `null`},
		"x":       {`1`}, "Id": {`"1"`}, "re\u200bsult": {`1`},
	}
	likely := map[string]int{"jsonrpc": 95, "id": 60, "method": 50, "params": 50, "result": 30, "error": 30, "x": 10, "Id": 2, "re\u200bsult": 2}
	var parts []string
	for _, name := range rapid.Permutation([]string{"jsonrpc", "id", "method", "params", "result", "error", "x", "Id", "re\u200bsult"}).Draw(t, "order") {
		if rapid.IntRange(0, 99).Draw(t, "has "+name) >= likely[name] {
			continue
		}
		value := rapid.SampledFrom(drawn[name]).Draw(t, name)
		if rapid.IntRange(0, 9).Draw(t, "escaped") == 0 {
			name = `\u00` + string("0123456789abcdef"[name[0]>>4]) + string("0123456789abcdef"[name[0]&0xf]) + name[1:]
		}
		space := rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "space")
		parts = append(parts, space+`"`+name+`"`+space+`:`+space+value+space)
	}
	return `{` + strings.Join(parts, ",") + `}`
}
