// SPDX-License-Identifier: Apache-2.0

package program

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFormats: values have the layouts that Python gives them.
func TestFormats(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	for _, tt := range []struct{ text, want string }{
		{`"{:.2f}".format(3.14159)`, `3.14`},
		{`"{:>10}|{:<5}|{:^7}".format("a","b","c")`, `         a|b    |   c   `},
		{`"{:,}".format(1234567)`, `1,234,567`},
		{`"{:,.2f}".format(-1234567.891)`, `-1,234,567.89`},
		{`"{:05d}".format(42)`, `00042`},
		{`"{:+d}".format(42)`, `+42`},
		{`"{:08.3f}".format(-3.14159)`, `-003.142`},
		{`"{:.0f}".format(2.5)`, `2`},
		{`"{:.1%}".format(0.256)`, `25.6%`},
		{`"{:x}".format(255)`, `ff`},
		{`"{:X}".format(255)`, `FF`},
		{`"{:b}".format(5)`, `101`},
		{`"{:e}".format(12345.678)`, `1.234568e+04`},
		{`"{:.3e}".format(0)`, `0.000e+00`},
		{`"{:g}".format(1000000.0)`, `1e+06`},
		{`"{:g}".format(0.0001)`, `0.0001`},
		{`"{:.3g}".format(1234.5)`, `1.23e+03`},
		{`"{:*^9}".format("mid")`, `***mid***`},
		{`"{:5}".format(3)`, `    3`},
		{`"{:5}".format("é")`, `é    `},
		{`"{:.3}".format("abcdef")`, `abc`},
		{`"{0:>4} {1:>4} {0}".format(1,2)`, `   1    2 1`},
		{`"{a:>4}{b}".format(a=1,b=2)`, `   12`},
		{`"{} {:.1f} {}".format("x",2,"y")`, `x 2.0 y`},
		{`"{:_}".format(1234567)`, `1_234_567`},
		{`"{:>6.1f}%".format(99.44)`, `  99.4%`},
		{`"{{{:.1f}}}".format(1.0)`, `{1.0}`},
		{`"{:.2f}".format(10)`, `10.00`},
		{`"%.2f" % 3.14159`, `3.14`},
		{`"%5d|%-5s|%05d" % (3,"x",7)`, `    3|x    |00007`},
		{`"%s: %.1f%%" % ("a",99.5)`, `a: 99.5%`},
		{`"%(a)s %(b).2f" % {"a":1,"b":2}`, `1 2.00`},
		{`"%+d" % 5`, `+5`},
		{`"%x %08x" % (255,255)`, `ff 000000ff`},
		{`"%.3s|" % "abcdef"`, `abc|`},
		{`"%5s|%-8s|%s" % (1,True,"z")`, `    1|True    |z`},
		{`"%.1e" % 12345.6`, `1.2e+04`},
		{`"%6.2f|%s" % (1.005,"t")`, `  1.00|t`},
		{`"%5d" % 3.9`, `    3`},
		{`"%.2f" % 0`, `0.00`},
		{`"{:>8}".format("a{b")`, `     a{b`},
		{`"%5s" % "%"`, `    %`},
		{`"{:<6}|".format("{}")`, `{}    |`},
		{`"{:d}".format(-0)`, `0`},
		{`"{:.2f}".format(-0.001)`, `-0.00`},
		{`"{:6.2f}".format(float("inf"))`, `   inf`},
	} {
		out := runText(t, world, demoHost(), "result = "+tt.text, "", testLimits())
		var got string
		if out.Err != nil || json.Unmarshal(out.Result, &got) != nil || got != tt.want {
			t.Errorf("%s is %q (%v), want %q", tt.text, got, out.Err, tt.want)
		}
	}
}

// TestFaultsOfFormats say what to write; what the interpreter refuses it still does.
func TestFaultsOfFormats(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	for _, tt := range []struct{ text, want string }{
		{`"{:.2f}".format("a")`, "a format of numbers is for numbers, found string"},
		{`"%.2f" % None`, "a field that is not set is None"},
		{`"{:d}".format(1.5)`, "write int(x)"},
		{`"{:2000}".format(1)`, "a width in a format is at most 1000"},
		{`"{:.999999999999999999999}".format(1)`, "at most 1000"},
		{`"%.2q" % 1`, `there is no format \"%.2q\"`},
		{`"%*d" % (5, 1)`, "unknown conversion %*"},
		{`"{:%Y}".format(1)`, "{:.2f}"},
		{`"{:.2f}".format()`, "out of range"},
		{`"{} {0:.1f}".format(1)`, "cannot switch"},
		{`"%.1f %d" % 1`, "not enough arguments"},
		{`"%.1f" % (1, 2)`, "too many arguments"},
		{`"{:.1f".format(1)`, "unmatched"},
		{`("{:1000}" * 60000).format(*([1] * 60000))`, "Program too large"},
		{`("%1000d" * 60000) % tuple([1] * 60000)`, "Program too large"},
	} {
		out := runText(t, world, demoHost(), "result = "+tt.text, "", testLimits())
		if out.Err == nil {
			t.Errorf("%s is %s", tt.text, out.Result)
			continue
		}
		text, _ := json.Marshal(out.Err.Message + violationsOf(out))
		if !strings.Contains(string(text), tt.want) {
			t.Errorf("%s: %s, want %q", tt.text, text, tt.want)
		}
	}
}

func violationsOf(out *Outcome) string {
	var all strings.Builder
	for _, v := range out.Err.Violations {
		all.WriteString(v.Message)
	}
	return all.String()
}
