// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"regexp"
	"strings"
	"testing"
)

func TestPatternsWithin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		one, other    string
		within, known bool
	}{
		{"^a$", "^a|b$", true, true},
		{"^a$", "^[a-c]$", true, true},
		{"^[a-c]$", "^a$", false, true},
		{"a", "^a", false, true},
		{"^a", "a", true, true},
		{"ab$", "b$", true, true},
		{"b$", "ab$", false, true},
		{"", "^$", false, true},
		{"^$", "", true, true},
		{"^(0|[1-9][0-9]{0,9})$", "^[0-9]+$", true, true},
		{"^[0-9]+$", "^(0|[1-9][0-9]{0,9})$", false, true},
		{"^x*$", "^(xx)*x?$", true, true},
		{"^(?i:k)$", "^[kK\u212a]$", true, true},
		{"^.$", "^[^\n]$", true, true},
		{`^\d$`, `^[0-9]$`, true, true},
		{`\bword\b`, "word", false, false},
		{"(?=look)", "look", false, false},
		{"^[a-z]{900}[a-z]{900}$", "^[a-z]*$", true, true},
		{"(a|b)*a(a|b){5}$", "^(a|b)*b(a|b){5}$", false, true},
		{strings.Repeat("a", maxPatternBytes+1), "a", false, false},
	}
	for _, tt := range tests {
		within, known, _ := patternsWithin(tt.one, tt.other)
		if within != tt.within || known != tt.known {
			t.Errorf("%.40q in %.40q: %v %v, want %v %v", tt.one, tt.other, within, known, tt.within, tt.known)
		}
	}
}

// TestPatternsAreBounded: a pattern whose automaton doubles with every step is given up on, and not waited for.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	if _, known, _ := patternsWithin("(a|b)*a(a|b){30}$", "(a|b)*a(a|b){30}c?$"); known {
		t.Error("a comparison beyond the bound came to a result")
	}
	const classes = `(\pL|\pN|\pS){1,100}`
	if _, _, work := patternsWithin(classes, classes+"x"); work > maxPatternWork+100_000 {
		t.Errorf("%d instructions were followed", work)
	}
}

// FuzzPatternsWithin checks every answer against the strings at hand.
func FuzzPatternsWithin(f *testing.F) {
	f.Add("^a+$", "^a*$", "aa")
	f.Add("b$", "(a|b)$", "ab")
	f.Add("^[^x]?", "x|^$", "x")
	f.Fuzz(func(t *testing.T, one, other, s string) {
		if len(one)+len(other) > 60 {
			return
		}
		within, known, _ := patternsWithin(one, other)
		if !known || !within {
			return
		}
		a, errA := regexp.Compile(one)
		b, errB := regexp.Compile(other)
		if errA == nil && errB == nil && a.MatchString(s) && !b.MatchString(s) {
			t.Errorf("%q fits %q and not %q, which should hold it", s, one, other)
		}
	})
}
