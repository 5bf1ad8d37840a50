// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// size is the default bound of programs, in bytes.
const size = 64 << 10

// loops is a program of loops in one another.
func loops(size, depth int) string {
	var b strings.Builder
	b.WriteString("x = [1]\n")
	for i := 0; b.Len() < size-8*depth; i++ {
		b.WriteString(strings.Repeat(" ", i%depth) + "for i in x:\n")
		if i%depth == depth-1 {
			b.WriteString(strings.Repeat(strings.Repeat(" ", depth)+"y = x\n", 8))
		}
	}
	return b.String() + strings.Repeat(" ", depth) + "y = x\nresult = 1\n"
}

// large are programs of 64 KB that would be slow if the time was not linear.
func large() map[string]string {
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
		"loops in loops": loops(size, 24),
		"many names":     lines(func(i int) string { return fmt.Sprintf("a%d = b%d\n", i, i) }),
		"any tool":       fill("x = 'a'\n", "tools[x+x]\n", "result = 1\n"),
		"long texts":     fill("t = fleet.get_order(order_id=1).placed_at\ns = '"+strings.Repeat("1", size/2)+"'\n", "t < s\n", "result = 1\n"),
		"inputs":         fill("", "inputs.q\n", "result = 1\n"),
		"long lists":     fill("x = [1, 'a', 2, 'b', 3, 'c', 4, 'd', 5, 'e', 6, 'f', 7, 'g', 8, 'h']\n", "x = ["+strings.Repeat("x, ", 16)+"]\n", "result = x\n"),
		"joined lists":   fill("x = [1, 'a']\n", "x = [x, [x, x], [x]] if x else [[x, x], x, [x]]\n", "result = x\n"),
		"unpacked":       fill("a, b, c, d = 1, 2, 3, 4\n", "a, b, c, d = [b, c, d, a]\n", "result = a\n"),
		"comprehensions": fill("result = ", "[x for x in ", "[]"+strings.Repeat("]", (size-20)/13)),
	}
}

// TestWorkIsBounded: the steps of hostile programs of 64 KB are far below the bound. A step takes some hundred nanoseconds at most.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	inputs := []byte("{" + strings.TrimSuffix(strings.Repeat(`"abcdefgh":1,`, 1000), ",") + "}")
	for name, text := range large() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := parse(text)
			if err != nil {
				t.Skip("the parser refuses it:", err)
			}
			c := newChecker(w, inputs)
			_, findings := c.program(file)
			if c.work < 0 {
				t.Errorf("it takes %d steps, more than %d", c.budget-c.work, c.budget)
			}
			t.Logf("%d of %d steps", c.budget-c.work, c.budget)
			if len(findings) > maxFindings+1 {
				t.Errorf("%d findings", len(findings))
			}
		})
	}
}

// TestTooMuchWork is refused, and the steps end with the budget.
func TestTooMuchWork(t *testing.T) {
	t.Parallel()
	c := newChecker(&World{Catalog: build(t, demo)}, nil)
	_, findings := c.program(mustParse(t, loops(size, 200)))
	if len(findings) != 1 || findings[0].Rule != ruleTooComplex || findings[0].Instead == "" {
		t.Errorf("%d of %d steps: %s", c.budget-c.work, c.budget, show(findings))
	}
	if over := -c.work; over > c.budget/10 {
		t.Errorf("it went on for %d steps after the last", over)
	}
}

// BenchmarkLarge reads and checks the slowest programs of 64 KB.
func BenchmarkLarge(b *testing.B) {
	w := &World{Catalog: build(b, demo)}
	for name, text := range large() {
		if _, err := parse(text); err != nil {
			continue
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				Program(mustParse(b, text), w, nil)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/check")
		})
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
	f.Add("a, () = (1, ())\n[] = a\nfor () in [a]:\n  pass\nresult = a", []byte(``))
	f.Add("parallel(0, [{}])", []byte(``))
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
