// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// A pattern for a range matches exactly the decimals in it, as far as the bounds are not those of the type.
func TestRangePattern(t *testing.T) {
	t.Parallel()
	signed := integerTypeOf(protoreflect.Int64Kind)
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.OneOf(rapid.Int64Range(-1200, 1200), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0, 9, 10, 99, 100, -9, -10}))
		lo, hi := near.Draw(t, "lo"), near.Draw(t, "hi")
		pattern := rangePattern(big.NewInt(lo), big.NewInt(hi), signed)
		re := regexp.MustCompile("^" + pattern + "$")
		for _, x := range []int64{near.Draw(t, "x"), lo, hi, 0} {
			in := lo <= x && x <= hi
			if got := re.MatchString(strconv.FormatInt(x, 10)); got != in && (in || pattern != plainPattern(signed)) {
				t.Fatalf("%s for %d..%d matches %d: %t", pattern, lo, hi, x, got)
			}
		}
		if lo != math.MinInt64 && pattern != plainPattern(signed) && lo <= hi && re.MatchString(strconv.FormatInt(lo-1, 10)) {
			t.Fatalf("%s for %d..%d matches below", pattern, lo, hi)
		}
		if hi != math.MaxInt64 && pattern != plainPattern(signed) && lo <= hi && re.MatchString(strconv.FormatInt(hi+1, 10)) {
			t.Fatalf("%s for %d..%d matches above", pattern, lo, hi)
		}
		for _, bad := range []string{"", "-", "00", "+1", "1.0", "1e2", " 1", "-0"} {
			if re.MatchString(bad) {
				t.Fatalf("%s matches %q", pattern, bad)
			}
		}
	})
}

func TestPortablePatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		`^[a-z]+$`: true, `\d{3}-\w+`: true, `^(a|b)?$`: true, `(?i)a`: false, `\Aa\z`: false, `(?P<n>a)`: false, `\pL`: false, `[[:alpha:]]`: false,
		`\Qa.b\E`: false, `a++`: false, `(`: false, `(?:a)`: true, `\x{1F600}`: false,
	} {
		if got := isPortable(pattern); got != want {
			t.Errorf("isPortable(%q) = %t", pattern, got)
		}
	}
}

func TestCleanComment(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"one line", " A name.\n", "A name."},
		{"wrapped lines", " A name\n that goes on.\n\n Second.\n", "A name that goes on.\nSecond."},
		{"directives", " buf:lint:ignore ENUM\n The mode.\n nolint: all\n", "The mode."},
		{"internal comments", " Before (-- api-linter: core::0123=disabled\n    aip.dev/not-precedent: why --) after.\n", "Before  after."},
		{"open internal comment", " Before (-- never closed", "Before"},
		{"list", " Either:\n - one\n - two\n", "Either:\n- one\n- two"},
	}
	for _, tt := range tests {
		if got := cleanComment(tt.in); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"displayName", "pageSize", "name", "id"}
	for in, want := range map[string]string{
		"display_name": "displayName", "dispalyName": "displayName", "PAGESIZE": "pageSize", "nme": "name", "zzzzz": "", "": "", "idd": "id", "x": "",
	} {
		if got := Nearest(in, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSortViolations(t *testing.T) {
	t.Parallel()
	in := []Violation{{Path: "/a/10"}, {Path: "/b"}, {Path: "/a/2", Keyword: "z"}, {Path: "/a"}, {Path: "/a/2", Keyword: "y"}, {Path: ""}, {Path: "/b"}}
	var got string
	for _, v := range SortViolations(in, 6) {
		got += v.Path + v.Keyword + " "
	}
	if want := " /a /a/2y /a/2z /a/10 /b "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPatternsOfOpenAPI: a pattern of an annotation is ECMA 262's, and a rule only where RE2 reads it alike.
func TestPatternsOfOpenAPI(t *testing.T) {
	t.Parallel()
	for pattern, isRule := range map[string]bool{
		`^[a-z][a-z0-9-]{0,62}$`: true, `^\d{3}$`: true, `^(a|b)+$`: true,
		`^.{1,5}$`: false, `^\S+$`: false, `a\sb`: false, `(?i)a`: false, `^\pL+$`: false, `(?=x)y`: false, `[[:alpha:]]`: false, `\Aa\z`: false,
	} {
		k := keywords{pattern: pattern}
		if got := k.textRules().GetPattern(); (got == pattern) != isRule || got != "" && !isRule {
			t.Errorf("%s: the rule %q", pattern, got)
		}
	}
}
