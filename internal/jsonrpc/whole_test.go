// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"math/big"
	"strings"
	"testing"
)

// TestWholeNumber compares with exact arithmetic.
func TestWholeNumber(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`0`, `-0`, `0.0`, `-0e5`, `0e-7`, `1`, `-1`, `1.0`, `1.50`, `1.5e1`, `1.5e0`, `15e-1`, `150e-1`, `-150E-1`, `1e2`, `1E+2`, `0.001e3`, `0.0015e3`, `10e-1`, `10e-2`,
		`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `9.223372036854775807e18`, `9.223372036854775808e18`, `-9.223372036854775808e18`,
		`92233720368547758070e-1`, `1e18`, `1e19`, `10e18`, `1e308`, `1e2000`, `1e-2000`, `0e2000`, `00000000000000000000.1`, `1.` + strings.Repeat("0", 1000), `0.` + strings.Repeat("0", 100) + `1e101`,
	} {
		exact, _ := new(big.Rat).SetString(raw)
		want := exact.IsInt() && exact.Num().IsInt64()
		got, ok := wholeNumber([]byte(raw))
		if ok != want || (ok && got != exact.Num().Int64()) {
			t.Errorf("%.60s: %d, %v; want %v, %v", raw, got, ok, exact, want)
		}
	}
}

// TestWholeNumberRefuses what is no number, and what would take long to compute.
func TestWholeNumberRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		``, `"1"`, `true`, `null`, `{}`, `[1]`, `1e2001`, `0e2001`, `1e-2001`, `0e-2001`, `0e99999999999999999999999`, `1.` + strings.Repeat("0", 1023), strings.Repeat("0", 1025) + `.0`,
	} {
		if n, ok := wholeNumber([]byte(raw)); ok {
			t.Errorf("%.60s: %d", raw, n)
		}
	}
}
