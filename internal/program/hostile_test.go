// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// allocated is how many bytes the process has allocated so far, those that are free again too.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestHostileSource shows that sources are refused, or read, within bounds: the parser and what walks its tree recurse.
func TestHostileSource(t *testing.T) { //nolint:paralleltest // it measures the heap
	large := testLimits()
	large.Bytes = 16 << 20
	for name, text := range map[string]string{
		"lists":        "x = " + strings.Repeat("[", 10<<20),
		"parentheses":  "x = " + strings.Repeat("(", 10<<20),
		"dicts":        "x = " + strings.Repeat("{1:", 3<<20),
		"minus":        "x = " + strings.Repeat("- ", 5<<20) + "1",
		"not":          "x = " + strings.Repeat("not ", 2<<20) + "1",
		"fields":       "x = a" + strings.Repeat(".a", 5<<20),
		"calls":        "x = a" + strings.Repeat("()", 5<<20),
		"sums":         "x = a" + strings.Repeat("+1", 5<<20),
		"conditions":   "x = a" + strings.Repeat(" if a else a", 1<<20),
		"lambdas":      "x = " + strings.Repeat("lambda:", 1<<20) + "1",
		"comparisons":  "x = a" + strings.Repeat(" and a", 1<<20),
		"elif":         "if a:\n  x = 1\n" + strings.Repeat("elif a:\n  x = 1\n", 1<<19),
		"elif with if": "if a:\n  x = 1\n" + strings.Repeat("elif a:\n  if b:\n    x = 1\n", 1<<18),
		"blocks":       strings.Repeat("if a:\n ", 1<<19) + "pass",
		"indentation":  indented(2000),
		"a number":     "x = " + strings.Repeat("9", 10<<20),
		"a text":       "x = '" + strings.Repeat("9", 10<<20),
		"a comment":    strings.Repeat("#", 10<<20),
		"lines":        strings.Repeat("x = 1\n", 1<<15),
		"faults":       strings.Repeat("x = = 1\n", 1<<13),
		"findings":     strings.Repeat("x = f''\n", 1<<14),
		"brackets":     strings.Repeat("[]", 1<<20),
		"closed":       strings.Repeat("]", 1<<20),
		"commas":       "x = [" + strings.Repeat("1,", 1<<15) + "]",
		"words":        strings.Repeat("in ", 1<<20),
		"slices":       "x = a[" + strings.Repeat(":", 1<<20),
		"dict in dict": "x = " + strings.Repeat("{a for a in ", 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			p, findings := Parse(text, large)
			if p == nil && len(findings) == 0 {
				t.Error("neither a program nor a finding")
			}
			if len(findings) > maxFindings {
				t.Errorf("%d findings", len(findings))
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if _, findings := Parse(text, testLimits()); len(text) > testLimits().Bytes && (len(findings) != 1 || findings[0].Rule != "too-large") {
				t.Errorf("findings with the plain limit: %+v", findings)
			}
		})
	}
}

func indented(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if a:\n")
	}
	return b.String() + strings.Repeat(" ", n) + "pass"
}

// TestHostilePrograms shows that the memory and the time of a run are bounded, whatever the program does.
func TestHostilePrograms(t *testing.T) { //nolint:paralleltest // it measures the heap
	world := worldOf(t, demoCatalog)
	limits := testLimits()
	limits.Memory, limits.Steps = 8<<20, 150_000
	// Each step of a rewritten program may take a frame and its arguments, which are free when it ends.
	most := uint64(2*limits.Memory) + limits.Steps*256
	const dag, tuples = "x = [1]\nfor i in range(60):\n  x = [x, x]\n", "x = (1,)\nfor i in range(60):\n  x = (x, x)\n"
	const deep = "x = []\nfor i in range(30000):\n  x = [x]\n"
	const deepTuples = "x = ()\nfor i in range(30000):\n  x = (x,)\n"
	large := "s = 'abcdefgh'\nfor i in range(17):\n  s = s + s\n" // a megabyte
	programs := map[string]string{
		"repeated text":         "x = 'x' * 1000000000",
		"repeated list":         "x = [1] * 100000000",
		"repeated from left":    "x = 100000000 * (1, 2)",
		"repeated bytes":        "x = b'x' * 1000000000",
		"doubled text":          "x = 'x'\nfor i in range(100):\n  x += x",
		"doubled list":          "x = [1]\nfor i in range(100):\n  x += x",
		"doubled by +":          "x = [1]\nfor i in range(100):\n  x = x + x",
		"doubled tuple":         "x = (1,)\nfor i in range(100):\n  x = x + x",
		"extended":              "x = [1]\nfor i in range(100):\n  x.extend(x)",
		"slices":                "x = list(range(100000))\ny = []\nfor i in range(100000):\n  y.append(x[1:])",
		"shift":                 "x = 1\nfor i in range(100000):\n  x = x << 500",
		"product":               "x = 3\nfor i in range(100000):\n  x *= x",
		"float to number":       "x = int(1e308)\nfor i in range(100000):\n  x = x * x",
		"digits":                "x = int('9' * 100000)",
		"range to list":         "x = list(range(1000000000))",
		"range to tuple":        "x = tuple(range(1000000000))",
		"range to set":          "x = set(range(1000000000))",
		"range as arguments":    "def f(*a):\n  pass\nf(*range(1000000000))",
		"range in dict":         "x = {i: i for i in range(100000000)}",
		"dict of range":         "x = dict(zip(range(100000000), range(100000000)))",
		"all":                   "x = all(range(1, 1000000000000))",
		"max":                   "x = max(range(1000000000000))",
		"sum":                   "x = sum(range(1000000000000))",
		"sorted":                "x = sorted(range(100000000))",
		"sorted with keys":      dag + "y = sorted([1, 2, 3, 4], key=lambda v: x)",
		"max with keys":         dag + "y = max([1, 2, 3, 4], key=lambda v: x)",
		"enumerate":             "x = enumerate(range(1000000000))",
		"reversed":              "x = reversed(range(1000000000))",
		"in a range":            "x = 'a' in range(1000000000000)",
		"nested comprehension":  "x = [a for a in range(10000) for b in range(10000) for c in range(10000)]",
		"lists of lists":        "x = [[[], [], [], [], [], [], [], [], [], []] for b in range(100000000)]",
		"lists of dicts":        "x = [{} for b in range(100000000)]",
		"dicts":                 "x = {}\nfor i in range(100000000):\n  x[i] = i",
		"sets":                  "x = set()\nfor i in range(100000000):\n  x.add(i)",
		"functions":             "x = [lambda: i for i in range(100000000)]",
		"text of a dag":         dag + "y = str(x)",
		"repr of a dag":         dag + "y = repr(x)",
		"% of a dag":            dag + "y = '%s' % [x]",
		"widths":                "x = ('{:1000}' * 60000).format(*([1] * 60000))",
		"widths of %":           "x = ('%1000d' * 60000) % tuple([1] * 60000)",
		"one width":             "x = [1]\nfor i in range(1000000):\n  x.append('{:1000}'.format(i))",
		"precision of a number": "x = 1 << 2000\nfor i in range(1000000):\n  y = '{:,.100f}'.format(x)",
		"format with a width":   large + "x = '{:5}{:5}{:5}'.format(s, s, s)",
		"format of a dag":       dag + "y = '{}'.format(x)",
		"format by name":        dag + "y = '{a}'.format(a=x)",
		"fail with a dag":       dag + "fail(x)",
		"result of a dag":       dag + "result = x",
		"json of a dag":         dag + "y = json.encode(x)",
		"argument of a dag":     dag + "fleet.get_order(order_id=x)",
		"equal dags":            dag + "y = x\n" + strings.ReplaceAll(dag, "x", "z") + "b = x == z",
		"equal wide":            "x = [1]\nfor i in range(8):\n  x = [x] * 1000\ny = [1]\nfor i in range(8):\n  y = [y] * 1000\nb = x == y",
		"dag in a list":         dag + "b = x in [x, [x, x]]",
		"index of a dag":        dag + "b = [[[[1]]], x].index([x, x])",
		"remove a dag":          dag + "[[[[1]]], x].remove([x, x])",
		"hash of a dag":         tuples + "d = {x: 1}",
		"hash in a set":         tuples + "d = set([x])",
		"hash by get":           tuples + "d = {1: 2}.get(x)",
		"hash by index":         tuples + "d = {1: 2}[x]",
		"hash by in":            tuples + "d = x in {1: 2}",
		"hash by assignment":    tuples + "d = {}\nd[x] = 1",
		"hash by augmentation":  tuples + "d = {}\nd[x] += 1",
		"hash by comprehension": tuples + "d = {x: 1 for i in range(3)}",
		"hash by dict":          tuples + "d = dict([(x, 1)])",
		"hash by update":        tuples + "d = {}\nd.update([(x, 1)])",
		"hash by setdefault":    tuples + "d = {}\nd.setdefault(x, 1)",
		"hash by union":         tuples + "d = set() | set([1])\nd.union([x])",
		"hash by add":           tuples + "d = set()\nd.add(x)",
		"sets of large keys":    "x = ()\nfor i in range(14):\n  x = (x, x)\na = set([x])\nb = set([x])\nfor i in range(100000):\n  c = a - b\n",
		"union of large keys":   "x = ()\nfor i in range(14):\n  x = (x, x)\na = set([x])\nfor i in range(100000):\n  c = a.union([])\n",
		"dicts of large keys":   "x = ()\nfor i in range(14):\n  x = (x, x)\na = {x: 1}\nb = {}\nfor i in range(100000):\n  b |= a\n",
		"pop a dag":             tuples + "d = {1: 1}\nd.pop(x)",
		"error of a key":        tuples + "d = {(1, 2): 1}\ny = d[(x, 1)]",
		"twice the same key":    tuples + "y = {1: 1, 1: x}",
		"deep text":             deep + "y = str(x)",
		"deep equal":            deep + "y = x\n" + strings.ReplaceAll(deep, "x", "z") + "b = x == z",
		"deep result":           deep + "result = x",
		"deep key":              deepTuples + "d = {x: 1}",
		"cycle":                 "x = []\nx.append(x)\ny = str(x)\nresult = x",
		"cycle of dicts":        "x = {}\nx['a'] = x\nresult = x",
		"cycle compared":        "x = []\nx.append(x)\ny = []\ny.append(y)\nb = x == y",
		"replace":               large + "y = s.replace('', s)",
		"replace letters":       large + "y = s.replace('a', s)",
		"join":                  large + "y = s.join(['a'] * 100000)",
		"split":                 large + "y = []\nfor i in range(1000):\n  y.append(s.split('a'))",
		"split by space":        "s = 'a ' * 500000\ny = []\nfor i in range(1000):\n  y.append(s.split())",
		"upper":                 large + "y = []\nfor i in range(100000):\n  y.append(s.upper())",
		"% many times":          large + "y = ('%s' * 1000) % tuple([s] * 1000)",
		"% by name":             large + "y = ('%(a)s' * 1000) % {'a': s}",
		"format many times":     large + "y = ('{0}' * 1000).format(s)",
		"scans":                 large + "for i in range(100000):\n  y = s.count('z')",
		"finds":                 large + "for i in range(100000):\n  y = 'z' in s",
		"compares":              large + "z = s + 'a'\nw = s + 'b'\nfor i in range(100000):\n  y = z == w",
		"long keys":             large + "d = {}\nfor i in range(100000):\n  y = d.get(s)",
		"strips":                large + "for i in range(100000):\n  y = s.strip(s)",
		"elements":              large + "y = list(s.elems())",
		"bytes":                 large + "y = []\nfor i in range(1000):\n  y.append(bytes(s))",
		"decode":                "s = '[' + '1,' * 100000 + '1]'\ny = []\nfor i in range(1000):\n  y.append(json.decode(s))",
		"decode deep":           "y = json.decode('[' * 100000)",
		"encode":                "x = [1] * 100000\ny = []\nfor i in range(1000):\n  y.append(json.encode(x))",
		"pop from the front":    "x = list(range(100000))\nfor i in range(100000):\n  x.pop(0)",
		"insert at the front":   "x = []\nfor i in range(1000000):\n  x.insert(0, i)",
		"large frames":          "def f():\n  if True:\n    return 1\n  x = [" + strings.Repeat("1,", 20000) + "]\nfor i in range(1000000):\n  f()",
		"large lambdas":         "f = lambda a: 1 if a else [" + strings.Repeat("1,", 20000) + "]\nfor i in range(1000000):\n  f(1)",
		"nested functions":      "def f0():\n  return 1\n" + nestedCalls(20) + "f20()",
		"steps":                 "for i in range(1000000000000):\n  pass",
		"bound methods":         large + "x = [s.upper for i in range(10000000)]",
		"errors":                "x = [hasattr(1, 'a') for i in range(10000000)]",
		"pages of errors":       "for i in range(1000000):\n  getattr(fleet, 'get_ordr', 1)",
		"calls of lambdas":      "f = lambda g: g(g)\nf(f)",
		"sort in sort":          "f = lambda x: sorted(range(100), key=lambda y: sorted(range(100), key=lambda z: -z)[0])[0]\ny = sorted(range(1000), key=f)",
		"default":               "x = {1: 2}\n" + dag + "for i in range(100000):\n  x.get(3, x)",
	}
	for name, text := range programs {
		t.Run(name, func(t *testing.T) {
			p, findings := Parse(text, limits)
			if len(findings) > 0 {
				t.Fatalf("findings: %+v", findings)
			}
			runtime.GC()
			before, began := allocated(), time.Now()
			out := p.Run(t.Context(), world, nil, demoHost())
			used, took := allocated()-before, time.Since(began)
			t.Logf("%.1f MB, %s, %d steps: %v", float64(used)/(1<<20), took.Round(time.Millisecond), out.Steps, out.Err)
			if used > most {
				t.Errorf("it allocated %d bytes; at most %d", used, most)
			}
			if took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if out.Steps > limits.Steps+1 {
				t.Errorf("%d steps", out.Steps)
			}
			if out.Err != nil && out.Err.Code == errmap.InternalError {
				t.Errorf("%v", out.Err)
			}
		})
	}
}

// TestEstimate shows that values take at most twice the bytes that they are counted with.
func TestEstimate(t *testing.T) { //nolint:paralleltest // it measures the heap
	world := worldOf(t, demoCatalog)
	limits := testLimits()
	limits.Memory, limits.Steps = 1<<30, 1<<30
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, text := range map[string]string{
		"numbers":      "x = list(range(100000, 300000))",
		"large ints":   "x = [(1 << 400) + i for i in range(50000)]",
		"lists":        "x = [[i] for i in range(100000)]",
		"empty lists":  "x = [[[], [], [], [], [], [], [], [], [], []] for i in range(10000)]",
		"dicts":        "x = [{} for i in range(10000)]",
		"filled dicts": "x = [{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9} for i in range(10000)]",
		"a dict":       "x = {i: i for i in range(100000)}",
		"a set":        "x = set(range(100000))",
		"texts":        "x = ['a' + str(i) for i in range(100000)]",
		"parts":        "x = ','.join(['a'] * 200000).split(',')",
		"pairs":        "x = list(enumerate(range(100000)))",
		"zips":         "x = zip(range(100000), range(100000))",
		"items":        "x = {i: i for i in range(50000)}.items()",
		"lambdas":      "x = [lambda: i for i in range(50000)]",
		"appended":     "x = []\nfor i in range(200000):\n  x.append(i)",
		"JSON":         "x = json.decode('[' + ','.join(['{\"a\":1}'] * 20000) + ']')\ny = [o.a for o in x]",
		"messages":     "x = [p for i in range(40) for p in fleet.get_order(order_id=i).parcels]\ny = [p.contents for p in x]",
		"methods":      "x = ['a'.upper for i in range(20000)]",
		"times":        "x = [timestamp('2026-01-01T00:00:00Z') + duration('1s') * i for i in range(50000)]",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t.Context(), limits, world, demoHost())
			before := used()
			globals, err := r.exec(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			takes := used() - before
			counted := r.memory + int64(r.thread.Steps-r.charged)*stepBytes
			t.Logf("takes %d, counted %d: %.2f", takes, counted, float64(takes)/float64(counted))
			const setup = 1 << 18
			if takes > 2*counted+setup {
				t.Errorf("the values take %d bytes, and were counted with %d", takes, counted)
			}
			runtime.KeepAlive(globals)
		})
	}
}

// nestedCalls are functions that call the one before ten times each.
func nestedCalls(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "def f%d():\n  return [f%d() for i in range(10)]\n", i, i-1)
	}
	return b.String()
}

// jsonHost answers every call with the same JSON.
type jsonHost string

func (h jsonHost) Call(context.Context, *Call) ([]byte, *errmap.Error) { return []byte(h), nil }
func (h jsonHost) Resume(context.Context)                              {}

// FuzzProgram shows that no source, inputs or results make Parse or Run panic or run on, and that a run can be repeated.
func FuzzProgram(f *testing.F) {
	world := worldOf(f, demoCatalog)
	f.Add("result = [fleet.get_order(order_id=i).parcels[0].contents for i in range(3)]", `{"a":[1,"x"]}`, anOrder)
	f.Add("d = {}\nfor k, v in inputs.items():\n  d[k] = d.get(k, 0) + len(v)\nresult = sorted(d, key=lambda k: -d[k])", `{"a":"b"}`, "{}")
	f.Add("result = parallel([fleet.get_vehicle(vehicle_id=1), 3], errors=True)[0].labels", "", `{"labels":{"x":1}}`)
	f.Add("result = paginate(fleet.list_vehicles, page_size=2)", "", `{"vehicles":[{"id":"1"}],"nextPageToken":"x"}`)
	f.Add("o = fleet.get_order(order_id=1)\nresult = [o.placed_at + o.expected_duration * 1.5, o == o, str(o), o.labels]", "", anOrder)
	f.Add("def f(a, *b, **c):\n  return [a, b, c]\nresult = f(1, *inputs.x, **inputs)", `{"x":[1]}`, "[]")
	f.Add("x = f'{a}' if a is not 3 ** 2 else {1, 2}\nwhile True:\n  pass", "", "")
	f.Add("x, y = [1, 2][::-1]\nx += y << 3\nresult = '%s %d' % (x, y) + '{}'.format(x)", "null", "null")
	limits := Limits{Bytes: 4096, Depth: 32, Steps: 20_000, Calls: 5, Parallel: 2, Time: 10 * time.Second, Memory: 1 << 20, Result: 1 << 16}
	f.Fuzz(func(t *testing.T, text, inputs, result string) {
		p, findings := Parse(text, limits)
		if (p == nil) != (len(findings) > 0) {
			t.Fatalf("a program beside findings, or neither: %+v", findings)
		}
		for _, found := range findings {
			if found.Line < 1 || found.Column < 1 || found.Message == "" {
				t.Errorf("a finding without its place or its text: %+v", found)
			}
		}
		if p == nil {
			return
		}
		first := p.Run(t.Context(), world, []byte(inputs), jsonHost(result))
		second := p.Run(t.Context(), world, []byte(inputs), jsonHost(result))
		if first.Err != nil && first.Err.Code == errmap.InternalError {
			t.Errorf("%v", first.Err)
		}
		if string(first.Result) != string(second.Result) || len(first.Calls) != len(second.Calls) || first.Steps != second.Steps {
			t.Errorf("two runs differ: %s %d %d, %s %d %d", first.Result, len(first.Calls), first.Steps, second.Result, len(second.Calls), second.Steps)
		}
		if first.Result != nil && utf8.ValidString(result) && utf8.ValidString(inputs) {
			if fault := jsontext.Check(first.Result, 10_000); fault != nil {
				t.Errorf("result %q: %s", first.Result, fault.Reason)
			}
		}
	})
}
