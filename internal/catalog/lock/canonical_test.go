// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
)

// TestCanonicalFormIsThatOfRFC8785 has the examples of RFC 8785 sections 3.2.2 and 3.2.3, and what is easy to get wrong.
func TestCanonicalFormIsThatOfRFC8785(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{
			"section 3.2.2",
			`{
			  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			  "literals": [null, true, false]
			}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"section 3.2.3: names in the order of UTF-16",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
				`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",` +
				`"😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		},
		{"nested objects, arrays keep their order", `[{"b":[3,2,1],"a":{"d":1,"c":2}}]`, `[{"a":{"c":2,"d":1},"b":[3,2,1]}]`},
		{"HTML is not escaped", `"\u003ca href=\u0026\u003e\u2028\u007f"`, "\"<a href=&>\u2028\u007f\""},
		{"control characters", `"\b\t\n\f\r\u0000\u001f"`, `"\b\t\n\f\r\u0000\u001f"`},
		{"beyond 2^53", `9007199254740993`, `9007199254740992`},
		{"minus zero", `-0.0`, `0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := lock.Canonicalise([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestCanonicalNumbersAreThoseOfRFC8785 has the table of RFC 8785 appendix B.
func TestCanonicalNumbersAreThoseOfRFC8785(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ bits, want string }{
		{"0000000000000000", "0"},
		{"8000000000000000", "0"},
		{"0000000000000001", "5e-324"},
		{"8000000000000001", "-5e-324"},
		{"7fefffffffffffff", "1.7976931348623157e+308"},
		{"ffefffffffffffff", "-1.7976931348623157e+308"},
		{"4340000000000000", "9007199254740992"},
		{"c340000000000000", "-9007199254740992"},
		{"4430000000000000", "295147905179352830000"},
		{"44b52d02c7e14af5", "9.999999999999997e+22"},
		{"44b52d02c7e14af6", "1e+23"},
		{"44b52d02c7e14af7", "1.0000000000000001e+23"},
		{"444b1ae4d6e2ef4e", "999999999999999700000"},
		{"444b1ae4d6e2ef4f", "999999999999999900000"},
		{"444b1ae4d6e2ef50", "1e+21"},
		{"3eb0c6f7a0b5ed8c", "9.999999999999997e-7"},
		{"3eb0c6f7a0b5ed8d", "0.000001"},
		{"41b3de4355555553", "333333333.3333332"},
		{"41b3de4355555554", "333333333.33333325"},
		{"41b3de4355555555", "333333333.3333333"},
		{"41b3de4355555556", "333333333.3333334"},
		{"41b3de4355555557", "333333333.33333343"},
		{"becbf647612f3696", "-0.0000033333333333333333"},
		{"43143ff3c1cb0959", "1424953923781206.2"},
	} {
		raw, err := hex.DecodeString(tc.bits)
		if err != nil {
			t.Fatal(err)
		}
		number := math.Float64frombits(binary.BigEndian.Uint64(raw))
		for _, format := range []byte{'e', 'f'} { // neither is the form that is wanted
			text := strconv.FormatFloat(number, format, -1, 64)
			got, err := lock.Canonicalise([]byte(text))
			if err != nil || string(got) != tc.want {
				t.Errorf("%s: %s becomes %s (%v), want %s", tc.bits, text, got, err, tc.want)
			}
		}
	}
}

// TestWhatHasNoCanonicalForm is what RFC 8785 rules out by I-JSON.
func TestWhatHasNoCanonicalForm(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"duplicate name":      `{"a":1,"a":1}`,
		"lone surrogate":      `"\ud800"`,
		"bytes that are none": "\"\xff\"",
		"not JSON":            `{`,
		"two values":          `1 2`,
	} {
		if got, err := lock.Canonicalise([]byte(in)); err == nil {
			t.Errorf("%s: %s has the form %s", name, in, got)
		}
	}
}
