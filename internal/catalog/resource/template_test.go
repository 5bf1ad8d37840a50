// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTemplatesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "it does not begin with a scheme",
		"orders/{id}":                    "it does not begin with a scheme",
		"{scheme}://orders":              "it does not begin with a scheme",
		"1shop://orders":                 "it does not begin with a scheme",
		":orders":                        "it does not begin with a scheme",
		"sh_op://orders":                 "it does not begin with a scheme",
		"s%41p://orders":                 "it does not begin with a scheme",
		"shop://{id":                     `"{id" does not end`,
		"shop://id}":                     `'}' has no place in a URI`,
		"shop://{}":                      `"{}" is no simple expression`,
		"shop://{+id}":                   `"{+id}" is no simple expression`,
		"shop://{/id}":                   "is no simple expression",
		"shop://x{?id}":                  "is no simple expression",
		"shop://{#id}":                   "is no simple expression",
		"shop://{.id}":                   "is no simple expression",
		"shop://{a,b}":                   "is no simple expression",
		"shop://{id*}":                   "is no simple expression",
		"shop://{id:3}":                  "is no simple expression",
		"shop://{id.}":                   "is no simple expression",
		"shop://{a..b}":                  "is no simple expression",
		"shop://{1a}":                    "is no simple expression",
		"shop://{a.1b}":                  "is no simple expression",
		"shop://{a-b}":                   "is no simple expression",
		"shop://{a%20b}":                 "is no simple expression",
		"shop://{{a}}":                   "is no simple expression",
		"shop://{a}{b}":                  "nothing tells where {a} ends and {b} begins",
		"shop://{a}-{b}":                 "nothing tells where {a} ends",
		"shop://{a}%2F{b}":               "nothing tells where {a} ends",
		"shop://{a}/{a}":                 "{a} is there twice",
		"shop://a b":                     "' ' has no place in a URI",
		"shop://a\"":                     `'"' has no place in a URI`,
		"shop://it's":                    `'\'' has no place in a URI`,
		"shop://ü":                       "'ü' has no place in a URI",
		"shop://a\n":                     "has no place in a URI",
		"shop://a\\b":                    "has no place in a URI",
		"shop://\xff":                    "has no place in a URI",
		"shop://a%2":                     `"%2" is no percent-encoding`,
		"shop://a%2x":                    `"%2x" is no percent-encoding`,
		"shop://%{a}":                    "is no percent-encoding",
		"shop://%C3{a}":                  `"%C3" is no percent-encoded UTF-8`,
		"shop://{a}%A9":                  `"%A9" is no percent-encoded UTF-8`,
		"s:" + strings.Repeat("a", 8192): "it has 8194 bytes; the limit is 8192",
	} {
		if _, err := parseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

func TestTemplatesFindTheirValuesAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		template, uri string
		want          map[string]string // nil where it does not match
	}{
		{"shop://orders", "shop://orders", map[string]string{}},
		{"shop://orders", "shop://orders/", nil},
		{"shop://orders", "shop://order", nil},
		{"shop://orders", "SHOP://orders", nil},
		{"shop://orders", "shop://%6Frders", nil},
		{"shop://a%20b", "shop://a%20b", map[string]string{}},
		{"shop://a%20b", "shop://a b", nil},
		{"shop://orders/{id}", "shop://orders/7", map[string]string{"id": "7"}},
		{"shop://orders/{id}", "shop://orders/", nil},
		{"shop://orders/{id}", "shop://orders", nil},
		{"shop://orders/{id}", "shop://orders/7/", nil},
		{"shop://orders/{id}", "shop://orders/7/8", nil},
		{"shop://orders/{id}", "shop://orders/7%2F8", map[string]string{"id": "7/8"}},
		{"shop://orders/{id}", "shop://orders/7%2f8", map[string]string{"id": "7/8"}},
		{"shop://orders/{id}", "shop://orders/..", map[string]string{"id": ".."}},
		{"shop://orders/{id}", "shop://orders/%2E%2E%2Fsecret", map[string]string{"id": "../secret"}},
		{"shop://orders/{id}", "shop://orders/../orders/7", nil},
		{"shop://orders/{id}", "shop://orders/7?x=1", nil},
		{"shop://orders/{id}", "shop://orders/7#x", nil},
		{"shop://orders/{id}", "shop://orders/a:b", nil},
		{"shop://orders/{id}", "shop://orders/a'b", nil},
		{"shop://orders/{id}", "shop://orders/a%27b", map[string]string{"id": "a'b"}},
		{"shop://orders/{id}", "shop://orders/%C3%BC", map[string]string{"id": "ü"}},
		{"shop://orders/{id}", "shop://orders/ü", nil},
		{"shop://orders/{id}", "shop://orders/%FF", nil},
		{"shop://orders/{id}", "shop://orders/%00", map[string]string{"id": "\x00"}},
		{"shop://orders/{id}", "shop://orders/%", nil},
		{"shop://orders/{id}", "shop://orders/%2", nil},
		{"shop://orders/{id}", "shop://orders/%zz", nil},
		{"shop://orders/{id}", "shop://orders/%252F", map[string]string{"id": "%2F"}},
		{"shop://orders/{id}", "shop://orders/{id}", nil},
		{"shop://orders/{id}", "shop://orders/a+b", nil},
		{"shop://orders/{id}.json", "shop://orders/a.json.json", map[string]string{"id": "a.json"}},
		{"shop://orders/{id}.json", "shop://orders/.json", nil},
		{"shop://orders/v{id}", "shop://orders/v", nil},
		{"shop://orders/v{id}20", "shop://orders/v%2020", map[string]string{"id": " "}},
		{"shop://orders/v{id}20", "shop://orders/va%20", nil},
		{"shop://{a.b}/{a.c}", "shop://x/y", map[string]string{"a.b": "x", "a.c": "y"}},
		{"shop://x?q={q}&n={n}", "shop://x?q=a&n=1", map[string]string{"q": "a", "n": "1"}},
		{"shop://x?q={q}&n={n}", "shop://x?n=1&q=a", nil},
		{"urn:book:{isbn}", "urn:book:978-3", map[string]string{"isbn": "978-3"}},
		{"git+ssh://{host}", "git+ssh://a", map[string]string{"host": "a"}},
		{"http://[::1]/{a}", "http://[::1]/b", map[string]string{"a": "b"}},
	} {
		template, err := parseTemplate(tc.template)
		if err != nil {
			t.Errorf("%s: %v", tc.template, err)
			continue
		}
		got, ok := template.match(tc.uri)
		if ok != (tc.want != nil) {
			t.Errorf("%s matches %s: %v", tc.template, tc.uri, got)
			continue
		}
		if ok {
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", tc.template, tc.uri, diff)
			}
		}
	}
}

func TestTemplatesKnowWhatTheyShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"s://a", "s://a", true},
		{"s://a", "s://b", false},
		{"s://{x}", "s://a", true},
		{"s://{x}", "s://a/b", false},
		{"s://{x}/b", "s://a/{y}", true},
		{"s://{x}/b", "s://a/c", false},
		{"s://a{x}", "s://{y}b", true},
		{"s://a{x}", "s://b{y}", false},
		{"s://{x}.json", "s://{y}.xml", false},
		{"s://{x}n", "s://{y}.json", true},
		{"s://{x}20", "s://{y}%20", false},
		{"s://{x}0", "s://{y}%20", false},
		{"s://{x}a%20", "s://{y}%20", true},
		{"s://v{x}", "s://v", false},
		{"s://%20{x}", "s://%20", false},
		{"s://{x}", "t://{x}", false},
	} {
		a, err := parseTemplate(tc.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseTemplate(tc.b)
		if err != nil {
			t.Fatal(err)
		}
		if a.overlaps(b) != tc.want || b.overlaps(a) != tc.want {
			t.Errorf("%s and %s: %v and %v, want %v", tc.a, tc.b, a.overlaps(b), b.overlaps(a), tc.want)
		}
	}
}

// pattern is the template as a regular expression: another way to match, to compare with.
func (t *template) pattern() *regexp.Regexp {
	var out strings.Builder
	out.WriteString("^(?s:")
	for i, s := range t.segments {
		out.WriteString(regexp.QuoteMeta(s.prefix))
		if s.variable != "" {
			out.WriteString(`((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+)` + regexp.QuoteMeta(s.suffix))
		}
		if i < len(t.between) {
			out.WriteString(regexp.QuoteMeta(t.between[i : i+1]))
		}
	}
	return regexp.MustCompile(out.String() + ")$")
}

// FuzzTemplate holds that a template is refused or gives back what it was filled with, and matches what a regular
// expression matches.
func FuzzTemplate(f *testing.F) {
	for _, seed := range [][3]string{
		{"shop://orders/{id}", "7/8", "shop://orders/%37"}, {"shop://{a}/{b.c}.json?x={d}", "ü.json", "shop://1/.json?x=2"},
		{"urn:{x}%20{y}", "%", "urn:%"}, {"s://v{id}20", " ", "s://v%2020"}, {"a+b://{x}", "", "a+b://"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, text, value, uri string) {
		template, err := parseTemplate(text)
		if err != nil {
			return
		}
		if value != "" && utf8.ValidString(value) {
			values := map[string]string{}
			for i, v := range template.variables {
				values[v] = value + strings.Repeat("x", i)
			}
			made := template.expand(values)
			if got, ok := template.match(made); !ok || !maps.Equal(got, values) {
				t.Errorf("%q filled with %q is %q, and back %q %v", text, values, made, got, ok)
			}
		}
		got, ok := template.match(uri)
		found := template.pattern().FindStringSubmatch(uri)
		isText := true
		for i := 1; i < len(found); i++ {
			plain, err := url.PathUnescape(found[i])
			isText = isText && err == nil && utf8.ValidString(plain)
			if isText && ok && got[template.variables[i-1]] != plain {
				t.Errorf("%q in %q: %q, want %q", text, uri, got, plain)
			}
		}
		if ok != (found != nil && isText) {
			t.Errorf("%q matches %q: %v, want %v", text, uri, ok, found)
		}
	})
}

// FuzzOverlap holds that two templates that match one URI are found out, and that those which are found out have one.
func FuzzOverlap(f *testing.F) {
	f.Add("s://a{x}/b", "s://{y}b/{z}", "s://ab/b")
	f.Add("s://{x}20", "s://{y}%20", "s://a%20")
	f.Fuzz(func(t *testing.T, one, two, uri string) {
		a, err := parseTemplate(one)
		if err != nil {
			return
		}
		b, err := parseTemplate(two)
		if err != nil {
			return
		}
		shared := a.overlaps(b)
		if shared != b.overlaps(a) {
			t.Errorf("%q and %q: the order matters", one, two)
		}
		_, inA := a.match(uri)
		_, inB := b.match(uri)
		if inA && inB && !shared {
			t.Errorf("%q and %q share %q", one, two, uri)
		}
		if !shared {
			return
		}
		witness := ""
		for i, s := range a.segments {
			o := b.segments[i]
			switch {
			case s.variable == "":
				witness += s.prefix
			case o.variable == "":
				witness += o.prefix
			default:
				witness += longer(s.prefix, o.prefix) + "x" + longer(s.suffix, o.suffix)
			}
			if i < len(a.between) {
				witness += a.between[i : i+1]
			}
		}
		_, inA = a.match(witness)
		_, inB = b.match(witness)
		if !inA || !inB {
			t.Errorf("%q and %q do not share %q: %v, %v", one, two, witness, inA, inB)
		}
	})
}

func longer(a, b string) string {
	if len(a) > len(b) {
		return a
	}
	return b
}
