// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testLimits() Limits {
	return Limits{
		Bytes: 64 << 10, Depth: 64, Steps: 1_000_000, Calls: 50, Parallel: 4, Time: time.Minute, Memory: 64 << 20, Result: 1 << 20,
	}
}

func worldOf(t testing.TB, path string) *check.World {
	t.Helper()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &check.World{Catalog: c}
}

const demoCatalog = "../demo/demo.binpb"

// host answers calls by the names of tools.
type host struct {
	mu      sync.Mutex
	answers map[string]func(ctx context.Context, c *Call) ([]byte, *errmap.Error)
	calls   []string
	// running counts the calls under way, resumed how often the program went on with so many of them.
	running int
	resumed map[int]int
}

func (h *host) Resume(context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resumed == nil {
		h.resumed = map[int]int{}
	}
	h.resumed[h.running]++
}

func (h *host) Call(ctx context.Context, c *Call) ([]byte, *errmap.Error) {
	h.mu.Lock()
	h.calls = append(h.calls, fmt.Sprintf("%d %d:%d %s %s", c.Number, c.Line, c.Column, c.Tool.Name, c.Arguments))
	answer := h.answers[c.Tool.Name]
	h.running++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.running--
		h.mu.Unlock()
	}()
	if answer == nil {
		return []byte("{}"), nil
	}
	return answer(ctx, c)
}

func says(text string) func(context.Context, *Call) ([]byte, *errmap.Error) {
	return func(context.Context, *Call) ([]byte, *errmap.Error) { return []byte(text), nil }
}

const anOrder = `{"id":"18446744073709551615","customer":"Mara","destination":{"stopId":"9007199254740993"},` +
	`"parcels":[{"contents":"tea","weightKg":1.5,"valueCents":"1200","fragile":true},{"contents":"rope","weightKg":4,"valueCents":"5"}],` +
	`"status":"ORDER_STATUS_PLACED","placedAt":"2026-03-01T10:00:00Z","expectedDuration":"5400s","labels":{"a":"1","b":"2"}}`

func demoHost() *host {
	return &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){
		"fleet.find_orders": says(`{"orders":[` + anOrder + `],"totalMatches":"7"}`),
		"fleet.get_order": func(_ context.Context, c *Call) ([]byte, *errmap.Error) {
			if strings.Contains(string(c.Arguments), `404`) {
				return nil, errmap.New(errmap.ToolExecutionFailed, errmap.BackendCode("not_found"), errmap.Message("no such order"))
			}
			return []byte(anOrder), nil
		},
		"fleet.get_vehicle":        says(`{"id":"3","callSign":"Gull","kind":"VEHICLE_KIND_VAN","orderIds":["1","2"]}`),
		"fleet.get_delivery_proof": says(`{"orderId":"1","image":"aGk=","sha256":""}`),
	}}
}

func runText(t testing.TB, w *check.World, h Host, text, inputs string, limits Limits) *Outcome {
	t.Helper()
	p, findings := Parse(text, limits)
	if len(findings) > 0 {
		t.Fatalf("findings: %+v", findings)
	}
	return p.Run(t.Context(), w, []byte(inputs), h)
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	for _, tt := range []struct{ name, text, inputs, want string }{
		{"nothing", "x = 1", "", ""},
		{"arithmetic", "result = [1 + 2 * 3, 7 // 2, 7 / 2, -7 % 3, 1 << 10, 5 & 6, 2 - 3, ~1]", "", `[7,3,3.5,2,1024,4,-1,-2]`},
		{"exact", "o = fleet.get_order(order_id=1)\nresult = [o.id, o.id + 1, o.destination.stop_id, 9007199254740991]", "",
			`["18446744073709551615","18446744073709551616","9007199254740993",9007199254740991]`},
		{"spellings", "o = fleet.get_order(orderId=1)\nresult = [o.placed_at == o.placedAt, fleet_get_order(order_id=1).customer, tools['fleet.get_order'](order_id=1).customer, tools.fleet.get_order(order_id=1).customer]", "", `[true,"Mara","Mara","Mara"]`},
		{"unset", "v = fleet.get_vehicle(vehicle_id=3)\nresult = [v.position, v.driver, v.labels, v.battery_percent, v.capacity_kg, v.status, v.last_seen]", "",
			`[null,null,{},null,0,"VEHICLE_STATUS_UNSPECIFIED",null]`},
		{"in and get", "v = fleet.get_vehicle(vehicle_id=3)\nresult = ['driver' in v, 'call_sign' in v, v.get('driver', 'none'), v['callSign'], hasattr(v, 'id'), hasattr(v, 'nope'), getattr(v, 'nope', 4)]", "",
			`[false,true,"none","Gull",true,false,4]`},
		{"enums", "o = fleet.get_order(order_id=1)\nresult = [o.status == 'ORDER_STATUS_PLACED', o.status]", "", `[true,"ORDER_STATUS_PLACED"]`},
		{"bytes", "p = fleet.get_delivery_proof(order_id=1)\nresult = [p.image, len(p.image), p.image == b'hi', str(p.sha256)]", "", `["aGk=",2,true,""]`},
		{"times", `o = fleet.get_order(order_id=1)
due = o.placed_at + o.expected_duration
result = [due, str(due), due > "2026-03-01T11:00:00Z", due - o.placed_at, o.expected_duration == "5400s", o.expected_duration.seconds,
  duration("1.5s") * 2, -duration("1.5s"), duration("3s") / duration("2s"), max([o.placed_at, due]) == due, o.expected_duration / 2, sum([duration("1s"), duration("2s")])]`, "",
			`["2026-03-01T11:30:00Z","2026-03-01T11:30:00Z",true,"5400s",true,5400,"3s","-1.5s",1.5,true,"2700s","3s"]`},
		{"lists", "o = fleet.get_order(order_id=1)\nresult = {'heavy': [p.contents for p in o.parcels if p.weight_kg > 2], 'all': o.parcels[-1], 'n': len(o.parcels), 'cents': sum([p.value_cents for p in o.parcels])}", "",
			`{"heavy":["rope"],"all":{"contents":"rope","weightKg":4,"valueCents":"5"},"n":2,"cents":1205}`},
		{"maps", "l = fleet.get_order(order_id=1).labels\nresult = [l['a'], l.get('c'), sorted(l), [k + v for k, v in l.items()]]", "", `["1",null,["a","b"],["a1","b2"]]`},
		{"equality", "a = fleet.get_order(order_id=1)\nb = fleet.get_order(order_id=2)\nresult = [a == b, a != b, a.parcels[0] == a.parcels[1], a.parcels[0] in b.parcels]", "", `[true,false,false,true]`},
		{"inputs", "result = [inputs.a, inputs['b'].c, inputs.b.d[0], sorted(inputs), type(inputs), [k for k in inputs], inputs.b.get('zz'), len(inputs.b)]", `{"a":12345678901234567890,"b":{"c":null,"d":[1.5]}}`,
			`["12345678901234567890",null,1.5,["a","b"],"dict",["a","b"],null,2]`},
		{"items of an object", "result = [inputs.items[0], [k for k, v in inputs.b.items()]]", `{"items":[1],"b":{"x":1}}`, `[1,["x"]]`},
		{"augmented", "x = 1\nx += 2\nq = [1]\nm = q\nx = 3\nq += [2]\nd = {}\nfor i in range(4):\n  d[i % 2] = d.get(i % 2, 0) + i\nd[1] *= 10\ns = 'a'\ns += 'b'\nd |= {5: 6}\nresult = [x, m, d, s]", "", `[3,[1,2],{"0":2,"1":40,"5":6},"ab"]`},
		{"swap", "a = [1, 2, 3]\na[0], a[2] = a[2], a[0]\n(x, y), z = (1, 2), 3\nresult = [a, x, y, z, a[::-1], a[1:], 'abc'[-2:], 'abc'[::-1]]", "", `[[3,2,1],1,2,3,[1,2,3],[2,1],"bc","cba"]`},
		{"functions", "def f(x, y=2, *rest, **kw):\n  return [x, y, rest, kw]\ng = lambda a: a * 2\nresult = [f(1), f(1, 3, 4, z=5), f(*[7, 8], **{'q': 9}), g(4), sorted([3, 1, 2], key=lambda v: -v), max(['a', 'bbb'], key=len), min([], default=0)]", "",
			`[[1,2,[],{}],[1,3,[4],{"z":5}],[7,8,[],{"q":9}],8,[3,2,1],"bbb",0]`},
		{"texts", `result = ["%s is %d" % ("a", 3), "{}-{b}".format(1, b=2), ",".join(["x", "y"]), "a,b".split(","), "  x ".strip(), "aXa".replace("a", "b"), "abc".upper(), "x" * 3, [c for c in "ab".elems()], str([1, "a"]), repr("q"), "b" in "abc"]`, "",
			`["a is 3","1-2","x,y",["a","b"],"x","bXb","ABC","xxx",["a","b"],"[1, \"a\"]","\"q\"",true]`},
		{"builtins", "result = [list(range(3)), list(enumerate(['a'])), list(zip([1], [2])), any([0, 1]), all([]), abs(-1), int('7'), float('1.5'), bool(''), reversed([1, 2]), tuple([1]), dict(a=1), len(set([1, 1, 2])), type(1), sum([True, 2]), chr(65), ord('A'), min(3, 1)]", "",
			`[[0,1,2],[[0,"a"]],[[1,2]],true,true,1,7,1.5,false,[2,1],[1],{"a":1},2,"int",3,"A",65,1]`},
		{"rounding", "result = [round(2.5), round(3.5), round(2.675, 2), round(7), round(-1.25, 1), round(1e300) > 0]", "", `[2,4,2.67,7,-1.2,true]`},
		{"sorting is stable", "result = sorted([(1, 'b'), (0, 'x'), (1, 'a')], key=lambda p: p[0], reverse=True)", "", `[[1,"b"],[1,"a"],[0,"x"]]`},
		{"json", `result = [json.decode('{"a": [1, 2.0]}').a, json.encode({"x": fleet.get_vehicle(vehicle_id=3).order_ids})]`, "", `[[1,2],"{\"x\":[1,2]}"]`},
		{"floats", "result = [1.0, 1e30, float('nan'), float('-inf'), 0.1 + 0.2]", "", `[1,1e+30,"NaN","-Infinity",0.30000000000000004]`},
		{"top level", "out = []\nfor i in range(5):\n  if i == 3:\n    break\n  out.append(i)\nelse_ = 1\nresult = out", "", `[0,1,2]`},
		{"parallel", "r = parallel([fleet.get_order(order_id=i) for i in [1, 2, 3]])\nresult = [o.customer for o in r]", "", `["Mara","Mara","Mara"]`},
		{"parallel of several", "a, b = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nresult = [a.customer, b.call_sign]", "", `["Mara","Gull"]`},
		{"parallel with a tool", "r = parallel(fleet.get_order, [{'order_id': i} for i in [1, 2]])\nresult = len(r)", "", `2`},
		{"parallel with errors", "r = parallel([fleet.get_order(order_id=i) for i in [1, 404]], errors=True)\nresult = [[o.customer for o in r if o], r[1].code, r[1].message, r[1].status, r[1], type(r[1])]", "",
			`[["Mara"],"TOOL_EXECUTION_FAILED","no such order","NOT_FOUND",{"code":"TOOL_EXECUTION_FAILED","message":"no such order"},"error"]`},
		{"parallel of values", "def f(i):\n  return fleet.get_order(order_id=i).customer\nresult = parallel([f(i) if i else fleet.get_order(order_id=i).id for i in [1, 0]])", "", `["Mara","18446744073709551615"]`},
		{"parallel of nothing", "result = parallel([fleet.get_order(order_id=i) for i in []])", "", `[]`},
		{"a result as an argument", "v = fleet.get_vehicle(vehicle_id=3)\nfleet.get_order(order_id=v.order_ids[0])\nresult = None", "", `null`},
		{"shadowed", "fleet = 3\nparallel = lambda x: x\nresult = [fleet, parallel([tools.fleet.get_order(order_id=1).customer])]", "", `[3,["Mara"]]`},
		{"a message in a dict", "o = fleet.get_order(order_id=1)\nresult = {'d': o.destination, 1: True}", "", `{"d":{"stopId":"9007199254740993"},"1":true}`},
		{"large functions", "def f(a):\n  x = [" + strings.Repeat("a, ", 100) + "]\n  return len(x)\nresult = [f(1), (lambda a: [" + strings.Repeat("a, ", 100) + "])(1)[99]]", "", `[100,1]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := runText(t, world, demoHost(), tt.text, tt.inputs, testLimits())
			if out.Err != nil {
				t.Fatalf("%d:%d: %v %+v", out.Line, out.Column, out.Err, out.Err.Violations)
			}
			if string(out.Result) != tt.want {
				t.Errorf("result\n  got %s\n want %s", out.Result, tt.want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	small := testLimits()
	small.Steps, small.Memory, small.Calls, small.Result = 100_000, 4<<20, 3, 1000
	for _, tt := range []struct {
		name, text   string
		code         errmap.Code
		line, column int
		want         string
	}{
		{"unknown tool", "x = 1\nfleet.get_ordr(order_id=1)", errmap.InvalidToolInput, 2, 7, "there is no tool fleet.get_ordr; the nearest are fleet.get_order"},
		{"unknown module", "fleeet.get_order(order_id=1)", errmap.InvalidToolInput, 1, 1, "there is no fleeet"},
		{"unknown by name", "tools['fleet.nope_at_all'](a=1)", errmap.InvalidToolInput, 1, 6, "there is no tool fleet.nope_at_all"},
		{"unknown argument", "fleet.get_order(order=1)", errmap.InvalidToolInput, 1, 1, "fleet.get_order has no argument order; it has order_id"},
		{"positional", "fleet.get_order(1)", errmap.InvalidToolInput, 1, 1, "takes no arguments without names; write fleet.get_order(order_id=…)"},
		{"twice", "fleet.get_order(order_id=1, orderId=2)", errmap.InvalidToolInput, 1, 1, "orderId is given twice"},
		{"unknown field", "o = fleet.get_order(order_id=1)\nresult = o.custommer", errmap.InvalidToolInput, 2, 12, "message Order has no field custommer; did you mean customer?"},
		{"none", "v = fleet.get_vehicle(vehicle_id=1)\nresult = v.position.latitude", errmap.InvalidToolInput, 2, 21, "a field that is not set is None"},
		{"none compared", "v = fleet.get_vehicle(vehicle_id=1)\nresult = v.battery_percent < 3", errmap.InvalidToolInput, 2, 28, "a field that is not set is None"},
		{"iteration", "for x in fleet.get_order(order_id=1):\n  pass", errmap.InvalidToolInput, 1, 1, "message Order value is not iterable"},
		{"set a field", "o = fleet.get_order(order_id=1)\no.customer = 'x'", errmap.InvalidToolInput, 2, 2, "can't assign to .customer field"},
		{"change a result", "o = fleet.get_order(order_id=1)\no.parcels.append(1)", errmap.InvalidToolInput, 2, 1, "cannot append to frozen list"},
		{"string and number", "result = 'a' + 1", errmap.InvalidToolInput, 1, 14, "write str(x)"},
		{"method", "result = [1].push(2)", errmap.InvalidToolInput, 1, 14, "list has no method push"},
		{"method of Python", "x = [1]\nx.sort()", errmap.InvalidToolInput, 2, 3, "list has no method sort; write sorted(list)"},
		{"key", "result = {'a': 1}['b']", errmap.InvalidToolInput, 1, 18, `dict has no key "b"`},
		{"index", "result = [1][4]", errmap.InvalidToolInput, 1, 13, "index 4 of a list of 1"},
		{"fail", "x = 1\nfail('no', 'stock', x)", errmap.ToolExecutionFailed, 2, 1, "no stock 1"},
		{"tool error", "fleet.get_order(order_id=404)", errmap.ToolExecutionFailed, 1, 1, "no such order"},
		{"in a function", "def f():\n  return 1 // 0\nresult = f()", errmap.InvalidToolInput, 2, 12, "division by zero"},
		{"recursion", "def f(n):\n  return f(n)\nf(1)", errmap.InvalidToolInput, 2, 10, "called recursively"},
		{"steps", "for i in range(1000000):\n  pass", errmap.ResourceExhausted, 1, 1, "more than 100000 steps"},
		{"calls", "for i in range(4):\n  fleet.get_order(order_id=i)", errmap.ResourceExhausted, 2, 3, "more than 3 calls"},
		{"calls at once", "parallel([fleet.get_order(order_id=i) for i in range(4)])", errmap.ResourceExhausted, 1, 1, "more than 3 calls"},
		{"memory", "x = 'x' * 3000000 + 'x' * 3000000", errmap.ResourceExhausted, 1, 25, "more than 4194304 bytes"},
		{"result", "result = 1\nresult = 'x' * 2000", errmap.ResourceExhausted, 2, 1, "more than 1000 bytes of JSON"},
		{"function as result", "if True:\n  result = len\ndef f():\n  result = 1", errmap.InvalidToolInput, 2, 3, "cannot be written as JSON"},
		{"tool as result", "result = {'a': fleet.get_order}", errmap.InvalidToolInput, 1, 1, "cannot be written as JSON"},
		{"a key twice", "result = [{1: 'a', '1': 'b'}]", errmap.InvalidToolInput, 1, 1, `two keys that are "1" in JSON: int and a string`},
		{"a key twice as text", "json.encode({True: 1, 'true': 2})", errmap.InvalidToolInput, 1, 1, `two keys that are "true" in JSON`},
		{"parallel of lambdas", "parallel([lambda: 1])", errmap.InvalidToolInput, 1, 1, "write the calls in its list"},
		{"no hash", "hash('x')", errmap.InvalidToolInput, 1, 1, "there is no hash"},
		{"pages of what has none", "paginate(fleet.get_order, order_id=1)", errmap.InvalidToolInput, 1, 1, "does not list in pages"},
		{"time", "timestamp('yesterday')", errmap.InvalidToolInput, 1, 1, "is not a time such as"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := runText(t, world, demoHost(), tt.text, "{}", small)
			if out.Err == nil {
				t.Fatalf("no error, result %s", out.Result)
			}
			text := out.Err.Message
			for _, v := range out.Err.Violations {
				text += v.Message
			}
			if out.Err.Code != tt.code || !strings.Contains(text, tt.want) || out.Line != tt.line || out.Column != tt.column {
				t.Errorf("got %s at %d:%d: %s\nwant %s at %d:%d: %s", out.Err.Code, out.Line, out.Column, text, tt.code, tt.line, tt.column, tt.want)
			}
			if out.Result != nil {
				t.Errorf("a result beside the error: %s", out.Result)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"f-string", "x = f\"{a}: {b.c}\"", []string{`1:5 f-string "{}: {}".format(a, b.c)`}},
		{"f-string with a format", "x = f'{a.b:,.2f} of {c}'", []string{`1:5 f-string '{:,.2f} of {}'.format(a.b, c)`}},
		{"power", "y = 2\nx = y ** 2\nf(**y)", []string{"2:7 power x * x"}},
		{"words", "import os\nwhile True:\n  pass\ntry:\n  pass\nexcept E as e:\n  pass\nclass A:\n  pass\nwith x as y:\n  pass\nasync def f():\n  pass\ndel x\nglobal x\nraise E\nassert x\nyield 1\nfrom a import b", []string{
			"1:1 import ", "2:1 while for i in range(100): … with break",
			"4:1 try [r for r in parallel([…], errors=True) if r]", "6:1 except [r for r in parallel([…], errors=True) if r]",
			`8:1 class a dict: {"name": value}`, "10:1 with the statements of its body alone", "12:1 async a plain call; parallel([…]) runs calls at once",
			"14:1 del d.pop(key)", "15:1 global x = f(…), with return in the function", `16:1 raise fail("…")`, `17:1 assert fail("…")`,
			"18:1 yield out.append(x) for each, and return out", "19:1 from ",
		}},
		{"is", "a = x is None\nb = x is not None", []string{"1:7 is ==", "2:7 is !="}},
		{"walrus", "if (n := 3) > 2:\n  pass", []string{"1:7 walrus an assignment before the statement: x = …"}},
		{"hints", "x: int = 1\ndef f(a: int) -> int:\n  return a\nd = {'a': 1}\nl = lambda a: a\nif x: pass", []string{"1:2 type-hint x = …", "2:8 type-hint def name(a, b):"}},
		{"print", "print('x')\nx.print('y')", []string{"1:1 print result = …"}},
		{"generator", "x = sum(y for y in z)\nx = [y for y in (1, 2)]", []string{"1:8 generator [x for x in xs]"}},
		{"set", "x = {1, 2}\ny = {'a': 1}\nz = {}\nw = {k: v for k, v in y}", []string{"1:5 set set([…])"}},
		{"chained", "x = 1 < a < 3\ny = a < 1 and b < 2\nz = [a < 1, b < 2]\nw = f(a < 1) < 2", []string{"1:11 chained-comparison a < b and b < c"}},
		{"spread", "x = [*a, *b]\ny = {**a}\nf(*a)\nz = [a * b]", []string{"1:6 spread a + b", "2:6 spread a | b"}},
		{"adjacent", "x = ('a'\n  'b')", []string{`2:3 adjacent-strings "…" + "…"`}},
		{"reserved", "x.from\nf(import=1)\nx['from']", []string{`1:3 reserved getattr(value, "from"), or tools["module.from"](…)`, `2:3 reserved **{"import": value}`}},
		{"decorator", "@f\ndef g():\n  pass", []string{"1:1 decorator a call of the function"}},
		{"numbers", "x = 1_000", []string{"1:5 number 1000"}},
		{"several faults of syntax", "x = (1\n\ny = 3\ndef f(:\n  pass\nz = 1 +\nw = 2", []string{"1:5 syntax )"}},
		{"a bracket that is not closed", "x = f(a,\n  b=[1, 2]\ny = 3", []string{"1:6 syntax )"}},
		{"a bracket at the end", "y = 3\nx = {'a': [1", []string{"2:11 syntax ]"}},
		{"a bracket that another one closes", "x = [f(1]\ny = 3", []string{"1:9 syntax "}},
		{"faults in several statements", "x = = 1\ny = 3\ndef f(a b):\n  pass\nz = 1 +\nw = 2", []string{"1:5 syntax ", "3:10 syntax ", "5:7 syntax "}},
		{"in strings", "x = \"\"\"while\nimport {f} ** \"\"\"\ny = 'is' # while\nz = r'\\n'", nil},
		{"plain", "x = not a in b\ny = a if b else c\nfor i in x: pass\nf(a=1, *b, **c)\nx = a[1:2]\nassert_ = 1", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, findings := Parse(tt.text, testLimits())
			var got []string
			for _, f := range findings {
				got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Rule, f.Instead))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, findings)
			}
			if (p == nil) != (len(findings) > 0) {
				t.Errorf("a program beside findings, or neither")
			}
		})
	}
}

// TestCallsInOrder shows that numbers and places of calls depend on the program alone.
func TestCallsInOrder(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	const text = "v = fleet.get_vehicle(vehicle_id=3)\n" +
		"for o in parallel([fleet.get_order(order_id=i) for i in v.order_ids + [5, 6]]):\n  x = o\n" +
		"result = fleet.find_orders(filter={'status': 'ORDER_STATUS_PLACED'}, limit=None).total_matches"
	var want []string
	for range 20 {
		h := demoHost()
		out := runText(t, world, h, text, "{}", testLimits())
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		if diff := cmp.Diff(map[int]int{0: 3}, h.resumed); diff != "" {
			t.Errorf("how often the program went on, by the calls under way (-want +got):\n%s", diff)
		}
		var got []string
		for _, m := range out.Calls {
			got = append(got, fmt.Sprintf("%d %d:%d %s %s", m.Call.Number, m.Call.Line, m.Call.Column, m.Call.Tool.Name, m.Call.Arguments))
		}
		if want == nil {
			want = []string{
				`1 1:5 fleet.get_vehicle {"vehicleId":3}`, `2 2:20 fleet.get_order {"orderId":1}`, `3 2:20 fleet.get_order {"orderId":2}`,
				`4 2:20 fleet.get_order {"orderId":5}`, `5 2:20 fleet.get_order {"orderId":6}`,
				`6 4:10 fleet.find_orders {"filter":{"status":"ORDER_STATUS_PLACED"}}`,
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("calls (-want +got):\n%s", diff)
		}
	}
}

// TestBoundedParallel shows that no more calls run at once than the limit, and that the first error cancels the others.
func TestBoundedParallel(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){
			"fleet.get_order": func(ctx context.Context, c *Call) ([]byte, *errmap.Error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				defer func() { mu.Lock(); running--; mu.Unlock() }()
				wait := time.Second
				if c.Number == 6 {
					wait = time.Second / 2
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return nil, errmap.New(errmap.Cancelled)
				}
				if c.Number == 6 {
					return nil, errmap.New(errmap.Unavailable)
				}
				return []byte(anOrder), nil
			},
		}}
		begin := time.Now()
		out := runText(t, world, h, "parallel([fleet.get_order(order_id=i) for i in range(20)])", "", testLimits())
		if out.Err == nil || out.Err.Code != errmap.Unavailable {
			t.Errorf("error %v", out.Err)
		}
		if most != 4 || running != 0 {
			t.Errorf("%d at once, %d left", most, running)
		}
		if took := time.Since(begin); took != 3*time.Second/2 {
			t.Errorf("it took %s", took)
		}
		if len(out.Calls) != 8 {
			t.Errorf("%d calls were made", len(out.Calls))
		}
	})
}

// TestEnds shows what ends a run from outside: its own time, a deadline, and its caller.
func TestEnds(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	blocks := func(ctx context.Context, _ *Call) ([]byte, *errmap.Error) {
		<-ctx.Done()
		return nil, errmap.New(errmap.Cancelled)
	}
	for _, text := range []string{"fleet.get_order(order_id=1)", "parallel([fleet.get_order(order_id=1), fleet.get_order(order_id=2)], errors=True)"} {
		synctest.Test(t, func(t *testing.T) {
			h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){"fleet.get_order": blocks}}
			p, _ := Parse(text, testLimits())
			if out := p.Run(t.Context(), world, nil, h); out.Err == nil || out.Err.Code != errmap.Timeout || !strings.Contains(out.Err.Message, "1m0s") || out.Line != 1 {
				t.Errorf("own time: %+v", out)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if out := p.Run(ctx, world, nil, h); out.Err == nil || out.Err.Code != errmap.Timeout {
				t.Errorf("deadline: %+v", out)
			}
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if out := p.Run(ctx, world, nil, h); out.Err == nil || out.Err.Code != errmap.Cancelled {
				t.Errorf("cancelled: %+v", out)
			}
		})
	}
}

// TestPanics shows that a panic of a call is the error of that call.
func TestPanics(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){
		"fleet.get_order": func(context.Context, *Call) ([]byte, *errmap.Error) { panic("no") },
	}}
	for _, text := range []string{"fleet.get_order(order_id=1)", "parallel([fleet.get_order(order_id=1), fleet.get_order(order_id=2)])"} {
		if out := runText(t, world, h, text, "", testLimits()); out.Err == nil || out.Err.Code != errmap.InternalError {
			t.Errorf("%s: %+v", text, out)
		}
	}
}

// TestStepsThatCountAsMemory are named as what they are.
func TestStepsThatCountAsMemory(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	limits.Memory = 1 << 20
	out := runText(t, worldOf(t, demoCatalog), demoHost(), "for i in range(1000000):\n  pass", "", limits)
	if out.Err == nil || !strings.Contains(out.Err.Message, "the values of its steps count for more than 1048576 bytes, 32 a step") {
		t.Errorf("got %v", out.Err)
	}
}
