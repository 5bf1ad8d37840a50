// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// ecmaPatterns are patterns of RE2 that ECMA 262 reads differently, or not at all, and some that both read alike; with what
// is shown for them, or "" where nothing is.
var ecmaPatterns = map[string]string{ //nolint:gochecknoglobals // a table
	`^[a-z]+$`:              `^[a-z]+$`,
	`^(a|bc){2,3}?\d$`:      `^(a|bc){2,3}?\d$`,
	`^\w+@example\.com$`:    `^\w+@example\.com$`,
	`^a.c$`:                 `^a[^\n]c$`,
	`^.{1,5}$`:              `^[^\n]{1,5}$`,
	`^(?:\s|.)*$`:           `^[\s\S]*$`,
	`^(?s)a.c$`:             `^a[\s\S]c$`,
	`^\s+$`:                 `^[\t\n\f\r ]+$`,
	`^\S+$`:                 `^[^\t\n\f\r ]+$`,
	`^[^\s]{2,256}$`:        `^[^\t\n\f\r ]{2,256}$`,
	`^[[a]$`:                `^[\[a]$`,
	`^[(){}/|-]+$`:          `^[\(\)\-\/\{-\}]+$`,
	`^[&&!!]$`:              `^[!&]$`,
	`^[]a]$`:                `^[\]a]$`,
	`^(?i)straße$`:          "^[Ss\u017f][Tt][Rr][Aa][ß\u1e9e][Ee]$",
	`^(?i)ok$`:              "^[Oo][Kk\u212a]$",
	`\Aab\z`:                `^ab$`,
	`^\Qa.b\E$`:             `^a\.b$`,
	`^[[:alpha:]_]+$`:       `^[A-Z_a-z]+$`,
	`^(?P<name>x)y$`:        `^(?:x)y$`,
	`^\x{1F600}$`:           "^\U0001f600$",
	`^\pL$`:                 "",
	`(?m)^a$`:               "",
	`^(?:)*$`:               `^(?:)*$`,
	`^a\bb|\.$`:             `^a\bb|\.$`,
	`^(?:a|b.)c$`:           `^(?:a|b[^\n])c$`,
	`^[^\n]*$`:              `^[^\n]*$`,
	`^(ab.)?-(?:x.){2,}$`:   `^(?:ab[^\n])?-(?:x[^\n]){2,}$`,
	`^[+--]$`:               `^[+-\-]$`,
	`^[\x00-\x1f\x7f.]{1}$`: `^[\x00-\x1f\x7f.]{1}$`,
}

// ecmaTexts have what the engines are at odds about.
func ecmaTexts() []string {
	out := []string{"", "abc", "bcbc7", "aa5", "ac", "a\nc", "a\rc", "a\u2028c", "a\u2029c", "a\u00a0c", "ok", "OK", "o\u212a", "a.b", "axb", "xy", "me@example.com",
		"\U0001f600", "ab", "ab\n", "line\nb", "(", "/", "(){}", "-", "+", ",", "aab", "b\nc", "bxc", "-xaxb", "abc-x1x2", "_Az", "\u00a0\u2003", " \t", "\v", "\ufeff", "é", "straße", "STRAẞE"}
	for r := range rune(0x80) {
		out = append(out, string(r))
	}
	return append(out, "\u0085", "\u00a0", "\u017f", "\u1680", "\u2028", "\u212a", "\uffff", "\U0010ffff")
}

// TestECMAPatterns compares what is shown with the pattern itself: in RE2 and, where there is Node, in both modes of ECMA 262.
func TestECMAPatterns(t *testing.T) {
	t.Parallel()
	texts := ecmaTexts()
	shown := map[string]string{} // by the original
	for original, want := range ecmaPatterns {
		got, ok := ecmaPattern(original)
		if ok != (want != "") {
			t.Errorf("%s: shown as %q, %v; want %q", original, got, ok, want)
			continue
		}
		if !ok {
			continue
		}
		if got != want {
			t.Errorf("%s: shown as %s, want %s", original, got, want)
		}
		shown[original] = got
		a, b := regexp.MustCompile(original), regexp.MustCompile(got)
		for _, text := range texts {
			if a.MatchString(text) != b.MatchString(text) {
				t.Errorf("RE2: %s is shown as %s, which differs on %q", original, got, text)
			}
		}
	}
	var cases []ecmaCase
	for original, pattern := range shown {
		cases = append(cases, ecmaCase{original, pattern, regexp.MustCompile(original)})
	}
	compareWithNode(t, cases, texts, "u", "v")
}

// readPatterns are patterns of declared schemas, and what a fault says of those that are refused.
var readPatterns = map[string]string{ //nolint:gochecknoglobals // a table
	`^a.c$`:                           "",
	`^\s+$`:                           "",
	`^\S+$`:                           "",
	`^[^\s]{2,256}$`:                  "",
	`^[\Sx]$`:                         "",
	`^[^\S]$`:                         "",
	`^[\w.-]+@\w+\.com$`:              "",
	`^\u0061[\u{62}\x63]+$`:           "",
	`^\ud83d\ude00$`:                  "",
	`^[^]$`:                           "",
	`^[]$|^xy$`:                       "",
	`^[\b\cI\0]$`:                     "",
	`^(?<first>[a-z])(?:b|c)*\d?$`:    "",
	`^\p{L}+\P{Lu}?$`:                 "",
	`^\p{Script=Latin}\p{sc=Latin}*$`: "",
	`^\/[\-\/(){}|]*$`:                "",
	`a\bb|\Bc$`:                       "",
	`[:alpha:]`:                       "",
	`^(?=a)b`:                         "looks around",
	`(?<!a)b`:                         "looks around",
	`(a)\1`:                           "refers to a group",
	`(?<n>a)\k<n>`:                    "refers to a group",
	`(?i)ok`:                          "flags",
	`(?P<n>x)`:                        "(?P",
	`\Aab\z`:                          "\\A is no escape",
	`\Qa.b\E`:                         "\\Q is no escape",
	`\pL`:                             "properties",
	`\p{Greek}`:                       "properties",
	`\x{1F600}`:                       "the character",
	`\ud83d`:                          "surrogate",
	`\u00`:                            "the character",
	`a\`:                              "backslash",
	`(`:                               "missing closing",
}

// TestPatternsOfDeclaredSchemas: they are of ECMA 262, and match what they match in Node, or are refused with a reason.
func TestPatternsOfDeclaredSchemas(t *testing.T) {
	t.Parallel()
	var cases []ecmaCase
	for pattern, want := range readPatterns {
		text, err := json.Marshal(map[string]string{"type": "string", "pattern": pattern})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Compile(text)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "pattern") {
				t.Errorf("%s: %v does not say %q", pattern, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		read, err := compileECMA(pattern)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, ecmaCase{pattern, pattern, read.Regexp})
	}
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{`^.$`, "\u2028", false}, {`^.$`, "\r", false}, {`^\s$`, "\u00a0", true}, {`^\S$`, "\ufeff", false}, {`^[[a]$`, "[", true}, {`^[\s]$`, "\v", true},
		{`^[^]$`, "\n", true}, {`[]`, "a", false}, {`^\ud83d\ude00$`, "\U0001f600", true}, {`^\cI$`, "\t", true}, {`^\p{Script=Greek}$`, "α", true},
	} {
		if read, err := compileECMA(tc.pattern); err != nil || read.MatchString(tc.text) != tc.want {
			t.Errorf("%s of %q: %v, want %v", tc.pattern, tc.text, err, tc.want)
		}
	}
	compareWithNode(t, cases, ecmaTexts(), "u")
}

// ecmaCase is a pattern for Node, and what it has to match.
type ecmaCase struct {
	original, pattern string
	want              *regexp.Regexp
}

// compareWithNode reads patterns with flags of ECMA 262, where there is Node.
func compareWithNode(t *testing.T, of []ecmaCase, texts []string, flags ...string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no Node, whose engine is that of most clients")
	}
	var cases []map[string]any
	for _, c := range of {
		want := make([]bool, len(texts))
		for i, text := range texts {
			want[i] = c.want.MatchString(text)
		}
		cases = append(cases, map[string]any{"original": c.original, "pattern": c.pattern, "want": want})
	}
	input, err := json.Marshal(map[string]any{"cases": cases, "texts": texts, "flags": flags})
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "-e", `
		const {cases, texts, flags} = JSON.parse(require("fs").readFileSync(0, "utf8"));
		for (const {original, pattern, want} of cases) for (const flag of flags) {
			let re;
			try { re = new RegExp(pattern, flag); } catch (e) { console.log(original + " is shown as " + pattern + ": " + e.message); continue; }
			texts.forEach((text, i) => { if (re.test(text) !== want[i]) console.log(original + " is shown as " + pattern + ", which differs with " + flag + " on " + JSON.stringify(text)); });
		}`)
	run.Stdin = bytes.NewReader(input)
	said, err := run.CombinedOutput()
	if err != nil || len(said) > 0 {
		t.Errorf("%v\n%s", err, fmt.Sprintf("%.4000s", said))
	}
}
