// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// large are programs of 64 KB that would be slow if the time was not linear.
func large() map[string]string {
	const size = 64 << 10
	fill := func(head, body, tail string) string {
		return head + strings.Repeat(body, (size-len(head)-len(tail))/len(body)) + tail
	}
	nested := func(begin, inner, end string) string {
		n := size / (len(begin) + len(end))
		return "result = " + strings.Repeat(begin, n) + inner + strings.Repeat(end, n)
	}
	lines := func(line func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(line(i))
		}
		return b.String() + "result = 1\n"
	}
	return map[string]string{
		"sum":           fill("result = 1", " + 1", "\n"),
		"sum of texts":  fill("result = 1", " + 'a'", "\n"),
		"parentheses":   nested("(", "1", ")"),
		"lists":         nested("[", "1", "]"),
		"tuples":        nested("(", "1", ",)"),
		"dicts":         nested("{1:", "1", "}"),
		"not":           fill("result = ", "not ", "1\n"),
		"minus":         fill("result = ", "-", "1\n"),
		"conditions":    fill("result = ", "1 if 1 else ", "1\n"),
		"attributes":    fill("result = fleet.get_map()", ".areas[0]", "\n"),
		"no attributes": fill("result = fleet.get_map()", ".area", "\n"),
		"calls":         fill("result = len", "()", "\n"),
		"lambdas":       fill("result = ", "lambda: ", "1\n"),
		"unknown names": lines(func(i int) string { return "x" + strings.Repeat("y", i%50) + string(rune('a'+i%26)) + "()\n" }),
		"unknown tools": fill("", "fleet.get_ordr(order_id=1)\n", "result = 1\n"),
		"tools":         fill("", "fleet.get_order(oder_id=1)\n", "result = 1\n"),
		"doubled":       fill("x = (1, 'a')\n", "x = (x, x)\n", "result = x\n"),
		"joined":        fill("x = (1, 'a')\ny = (1, 'a')\n", "x, y = (x, y), (y, x)\nz = x if y else y\n", "result = x\n"),
		"ifs":           fill("x = 1\n", "if x:\n  x = [x]\nelse:\n  x = (x,)\n", "result = x\n"),
		"loops":         fill("x = 1\n", "for i in x:\n  x = [i, x]\n", "result = x\n"),
		"functions": lines(func(i int) string {
			n := strings.Repeat("f", i%200+1) + string(rune('a'+i/200%26))
			return "def " + n + "(a):\n  return a\n" + n + "(" + n + ")\n"
		}),
		"comprehensions": fill("result = ", "[x for x in ", "[]"+strings.Repeat("]", (size-20)/13)),
	}
}

// TestTimeIsLinear checks programs of 64 KB. Each takes some milliseconds; the bound is for busy machines.
func TestTimeIsLinear(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	for name, text := range large() {
		file, err := parse(text)
		if err != nil {
			continue // the parser refuses it
		}
		began := time.Now()
		_, findings := Program(file, w, nil)
		took := time.Since(began)
		t.Logf("%-15s %8s %d findings", name, took.Round(100*time.Microsecond), len(findings))
		if took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if len(findings) > maxFindings+1 {
			t.Errorf("%s has %d findings", name, len(findings))
		}
	}
}

// TestMoreFindings says how many findings there are beyond the bound.
func TestMoreFindings(t *testing.T) {
	t.Parallel()
	_, findings := Program(mustParse(t, strings.Repeat("fleet.get_order()\n", 130)+"result = 1\n"), &World{Catalog: build(t, demo)}, nil)
	if n := len(findings); n != maxFindings+1 {
		t.Fatalf("%d findings", n)
	}
	if last := findings[maxFindings]; last.Rule != ruleMore || last.Message != "30 more faults follow" || last.Line != 100 {
		t.Errorf("%+v", last)
	}
}

// FuzzCheck checks that no program makes the check panic, whatever its inputs are, and that two checks say the same.
func FuzzCheck(f *testing.F) {
	paths, err := filepath.Glob("testdata/findings/*.star")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), []byte(`{"order_ids":[1,2],"a":{"b":null}}`))
	}
	f.Add("result = "+strings.Repeat("[", 500)+strings.Repeat("]", 500), []byte(`[`))
	f.Add("def f(*a, **k):\n  return f\nresult = f(*f, **f)", []byte(`{`))
	f.Add("a, (b, [c]) = (1, (2, [3]))\nresult = a[b](c)[b:c:a]", []byte(``))
	f.Add("load('a', 'b')\nresult = b", []byte(``))
	c := func() *catalog.Catalog { return build(f, demo) }()
	f.Fuzz(func(t *testing.T, text string, inputs []byte) {
		file, err := parse(text)
		if err != nil || len(text) > 64<<10 {
			return
		}
		plan, findings := Program(file, &World{Catalog: c}, inputs)
		for _, one := range findings {
			if one.Line < 1 || one.Column < 1 || one.Rule == "" || one.Message == "" {
				t.Errorf("%+v", one)
			}
		}
		for _, p := range plan {
			if p.Tool == nil || len(p.Places) == 0 {
				t.Errorf("%+v", p)
			}
		}
		again, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, other := Program(again, &World{Catalog: c}, inputs); show(other) != show(findings) {
			t.Errorf("findings\n%s\nand then\n%s", show(findings), show(other))
		}
	})
}
