// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program"
)

// right are programs that a check might take for wrong: what a variable holds is not what it seems to at first.
var right = []string{
	// Lists that are changed, also under another name, in another place or by a function.
	"xs = [1]\nys = xs\nys.append('a')\nresult = xs[1] + 'b'",
	"xs = [1]\nxs.append('a')\nresult = [x for x in xs if type(x) == 'string'][0] + 'b'",
	"xs = [1]\ndef f(l):\n  l.append('a')\nf(xs)\nresult = xs[1] + 'b'",
	"xs = [1]\nd = {'k': xs}\nd['k'].append('a')\nresult = xs[1] + 'b'",
	"xs = [[1], [2]]\nfor x in xs:\n  x.append('a')\nresult = xs[0][1] + 'b'",
	"xs = [1]\nxs += ['a']\nresult = xs[1] + 'b'",
	"xs = [1]\nxs[0] = 'a'\nresult = xs[0] + 'b'",
	"xs = [1]\nadd = xs.append\nadd('a')\nresult = xs[1] + 'b'",
	"xs = [1, 2]\nxs.insert(0, 'a')\nresult = xs[0] + 'b'",
	"d = {'k': 1}\nd['l'] = 'a'\nresult = d['l'] + 'b'",
	"d = {'k': 1}\nd.update({'k': 'a'})\nresult = d['k'] + 'b'",
	"d = {}\nd.setdefault('k', []).append('a')\nresult = d['k'][0] + 'b'",
	"t = ([1], 2)\nt[0].append('a')\nresult = t[0][1] + 'b'",
	"xs = []\ndef add(x):\n  xs.append(x)\nadd(1)\nadd('a')\nresult = xs[1] + 'b'",
	"xs = sorted([3, 1])\nxs.append('a')\nresult = xs[2] + 'b'",
	"xs = [1] if inputs else [2]\nys = xs or []\nys.append('a')\nresult = xs[1] + 'b'",
	"def f(l = [1]):\n  return l\nresult = f()[0] + 1",
	"p = parallel([fleet.get_order(order_id=1)])\np.append('a')\nresult = p[1] + 'b'",
	"xs = [1]\ndef f(g):\n  g('a')\nf(xs.append)\nresult = xs[1] + 'b'",
	"xs = [1]\nfor g in [xs.append]:\n  g('a')\nresult = xs[1] + 'b'",
	"xs = [1]\ngetattr(xs, 'append')('a')\nresult = xs[1] + 'b'",
	"xs = [[1]]\n[x.append('a') for x in xs]\nresult = xs[0][1] + 'b'",
	"xs = [[1]]\nxs[0] += ['a']\nresult = xs[0][1] + 'b'",
	"xs = [1]\nys = [xs, xs]\nys[1].extend(['a'])\nresult = xs[1] + 'b'",
	"d = {'k': {'l': 1}}\nfor k, v in d.items():\n  v['l'] = 'a'\nresult = d['k']['l'] + 'b'",
	"d = {'k': [1]}\nd.get('k').append('a')\nresult = d['k'][1] + 'b'",
	"xs = [1]\ndef f():\n  return xs\nf().append('a')\nresult = xs[1] + 'b'",
	"xs = [1]\nys = [xs]\nfor i in range(2):\n  z = ys[0]\n  z.append('a')\nresult = xs[1] + 'b'",
	"y = [1]\nxs = [y]\nxs[0] += ['a']\nresult = y[1] + 'b'",
	"a = [1]\na += {'k': 1}\na += set(['s'])\nresult = a[1] + a[2]",
	// Lists that begin empty.
	"xs = []\nys = xs\nys.append('a')\nresult = xs[0] + 'b'",
	"xs = []\nif inputs:\n  xs = ['a']\nresult = xs[0] + 'b'",
	"xs = [] + ['a']\nresult = xs[0] + 'b'",
	"xs = []\nfor i in range(2):\n  xs = xs + [i]\nresult = xs[0] + 1",
	"xs = []\nxs.extend(['a'])\nxs += ['b']\nresult = xs[0] + 'b' + xs[1]",
	"xs = [[]]\nxs[0].append('a')\nresult = xs[0][0] + 'b'",
	"xs = []\nfor i in range(2):\n  xs.append(xs[0] + 'b' if xs else 'a')\nresult = xs[1]",
	"d = {}\nfor i in range(2):\n  d['k'] = d['k'] + 'b' if 'k' in d else 'a'\nresult = d['k'] + 'c'",
	"d = {}\nfor i in range(2):\n  d.setdefault('k', []).append('a')\nresult = [x + 'b' for k in d for x in d[k]]",
	"def f(xs = []):\n  return xs + ['a']\nresult = f()[0] + 'b'",
	"xs = list()\nys = dict()\nxs.append('a')\nys['k'] = 'b'\nresult = xs[0] + ys['k']",
	"xs = []\ndef f():\n  for x in xs:\n    return x + 'b'\nxs.append('a')\nresult = f()",
	"xs = ([], {})\nxs[0].append('a')\nxs[1]['k'] = 'b'\nresult = xs[0][0] + xs[1]['k']",
	// Variables that have several values.
	"x = 1\nfor i in range(3):\n  y = [x]\n  x = 'a'\nresult = x + 'b'",
	"x = 1\nfor i in range(3):\n  if i > 0:\n    y = x + 'b'\n  x = 'a'\nresult = y",
	"def f():\n  return x + 'b'\nx = 1\nx = 'a'\nresult = f()",
	"x = None\nfor i in range(2):\n  if x == None:\n    x = fleet.get_order(order_id=1)\n  else:\n    y = x.id + 1\nresult = y",
	"x = 1\nif len([1]) == 1:\n  x = 'a'\nresult = x + 'b'",
	"x, y = 1, 'a'\nx, y = y, x\nresult = x + 'b'",
	"x = fleet.get_order(order_id=1)\nx = x.customer\nresult = x + 'b'",
	"x = 1\ndef f():\n  x = 'a'\n  return x + 'b'\nresult = f()",
	"for x in [1, 'a']:\n  if type(x) == 'string':\n    y = x + 'b'\nresult = y",
	"x = fleet.get_order(order_id=1)\nif False:\n  x.id + 'a'\nresult = 1",
	"x = fleet.get_order(order_id=1)\nfor y in []:\n  x + 1\nresult = 1",
	"x = fleet.get_order(order_id=1)\nresult = x.id + 'a' if False else 1",
	"x = 1\nresult = True or x + 'a'",
	"def f():\n  return 1\n  return 1 + 'a'\nresult = f()",
	"for i in range(2):\n  continue\n  x = 1 + 'a'\nresult = 1",
	// Lists and tuples of different types.
	"a, b = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nresult = a.customer + b.call_sign",
	"a, b = fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)\na, b = b, a\nresult = a.call_sign + b.customer",
	"(a, b), c = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)]), 'x'\nresult = a.customer + b.call_sign + c",
	"r = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nresult = r[0].customer + r[-1].call_sign + r[1:][0].call_sign + r[::-1][0].call_sign",
	"r = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nr.reverse() if False else None\nr.insert(0, 'a')\nr.pop()\nresult = r[0] + r[1].customer",
	"r = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nr[0], r[1] = r[1], r[0]\nresult = r[0].call_sign",
	"r = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)])\nr.append(1)\na, b, c = r\nresult = r[2] + c",
	"r = [fleet.get_order(order_id=1)]\nfor i in range(2):\n  r = r + [fleet.get_vehicle(vehicle_id=i)]\na, b, c = r\nresult = r[2].call_sign",
	"r = [1, 'a']\ns = r\ns.clear()\nr.extend(['a', 1, 2])\na, b, c = r\nresult = r[0] + 'b'",
	"def f(l):\n  l.insert(0, 'a')\nr = [1]\nf(r)\na, b = r\nresult = r[0] + 'b'",
	"r = [[1, 'a']]\nr[0].insert(0, 'b')\na, b, c = r[0]\nresult = a + c",
	"r = [1, 'a'] if inputs else [1]\na, b = r\nresult = b + 'b'",
	"def f(n):\n  return (1, 'a') if n else (1, 'a', 2)\na, b = f(1)\na, b, c = f(0)\nresult = b + 'b'",
	"a, b = [], {}\na.append('x')\nb['k'] = 'y'\nresult = a[0] + b['k']",
	"a, b = [1], [2]\nc = a\nc.append('x')\nresult = a[1] + 'y'",
	"xs = [1]\na, b = xs, xs\nb.append('x')\nresult = a[1] + xs[1]",
	"[a, b] = [1, 'x']\n(c, d) = sorted(['b', 'a'])\nresult = b + c",
	"a, b = (1,) + ('x',)\nc, d, e, f = [1, 'x'] * 2\nresult = b + d",
	"a, b = {'x': 1, 'y': 2}\nresult = a + b",
	"a, b = 'x y'.split(' ')\nc, d = list((1, 'x'))\ne, f = reversed([1, 'x'])\nresult = a + d + e",
	"for k, v in [(1, 'x'), ('y', 2)]:\n  if k == 'y':\n    result = k + 'z'",
	"a, b = 1, 2\nfor a, b in [('x', 'y')]:\n  pass\nresult = a + b",
	"result = [o.customer + v.call_sign for o, v in zip(parallel([fleet.get_order(order_id=1)]), [fleet.get_vehicle(vehicle_id=2)])]",
	"result = [v.call_sign for i, (k, v) in enumerate({'x': fleet.get_vehicle(vehicle_id=2)}.items())]",
	"rs = parallel([fleet.get_order(order_id=1), fleet.get_vehicle(vehicle_id=2)], errors=True)\na, b = rs\nresult = [a.customer if a else a.code, b.call_sign if b else b.message]",
	"a, b = parallel(fleet.get_order, [{'order_id': 1}, {'order_id': 2}])\nresult = a.customer + b.customer",
	"if False:\n  a, b = (1, 2, 3)\nresult = [x for x in [] if (1, 2)[x + 5]]",
	// Functions.
	"def f(x):\n  return x\nresult = f(1) + 1\ny = f('a') + 'b'",
	"def f(x):\n  return x + x\nresult = f(1)\ny = f('a')\nz = f([1])",
	"def f(x, y = 1):\n  return y\nresult = f(1, 'a') + 'b'",
	"def f(x, y = 1):\n  return y\nresult = f(1, y='a') + 'b'",
	"def f(*args, **kwargs):\n  return args[0] + kwargs['k']\nresult = f('a', k='b')",
	"def f(x):\n  return x + 'b'\ng = f\nresult = g('a')",
	"def apply(f, x):\n  return f(x)\ndef g(x):\n  return x + 'b'\nresult = apply(g, 'a')",
	"def f():\n  def g():\n    return y + 'b'\n  y = 1\n  y = 'a'\n  return g()\nresult = f()",
	"f = lambda x: x + 'b'\nresult = f('a')",
	"result = [f('a') for f in [lambda x: x + 'b', lambda x: x]]",
	"def f(x):\n  if x:\n    return 'a'\ny = f(1)\nresult = y + 'b'",
	"def pair():\n  return 1, 'a'\nn, s = pair()\nresult = s + 'b'",
	"max = 'a'\nresult = max + 'b'",
	"len = lambda x, y: x + y\nresult = len('a', 'b')",
	"fleet_name = 'fleet'\nresult = fleet_name + '!'",
	// Values of tools.
	"o = fleet.get_order(orderId='1')\nresult = o.id + o['id'] + o.get('id', 0)",
	"o = fleet.get_order(order_id=1.0)\nresult = o.vehicleId",
	"v = fleet.get_vehicle(vehicle_id='7')\nresult = v.call_sign + v.callSign + v['callSign']",
	"o = fleet.get_order(order_id=1)\nresult = getattr(o, 'nothing', 'none') + '!'",
	"o = fleet.get_order(order_id=1)\nresult = o.nothing if hasattr(o, 'nothing') else 1",
	"o = fleet.get_order(order_id=1)\nresult = 'customer' in o",
	"o = fleet.get_order(order_id=1)\nresult = '%s %d' % (o.customer, o.id)\nx = '{} {a}'.format(o.id, a=o.status)",
	"o = fleet.get_order(order_id=1)\nresult = o.status + '!'\nx = o.status.lower()\ny = o.status < 'Z'",
	"o = fleet.get_order(order_id=1)\nkg = sum([p.weight_kg for p in o.parcels])\nresult = kg * 2 // 1",
	"o = fleet.get_order(order_id=1)\nresult = [l + '!' for l in o.labels] + [v for v in o.labels.values()]",
	"o = fleet.get_order(order_id=1)\nresult = json.decode(json.encode({'a': o.id}))['a']",
	"rs = parallel([fleet.get_order(order_id=i) for i in [1, 2]], errors=True)\nresult = [r.code if not r else r.customer for r in rs]",
	"result = [f.__x if False else 1 for f in []]",
	"t = tools['fleet.get_order']\nresult = t(order_id=1).customer + '!'",
	"result = fleet.find_orders(filter={'not': {'status': 'ORDER_STATUS_PLACED'}}).total_matches + 1",
	"c = {'status': 'ORDER_STATUS_PLACED'}\nresult = fleet.find_orders(filter=c, limit=None).orders",
	"kw = {'limit': 3}\nresult = fleet.find_orders(**kw).orders",
	"args = {'order_id': 1}\nresult = parallel(fleet.get_order, [args, dict(order_id=2)])[0].customer",
	"s = inputs.s\nresult = fleet.find_orders(filter={'status': s}).orders",
	"result = inputs.n + 1\nx = inputs.s + 'a'\ny = inputs['l'][0] + 1\nz = inputs.o.p.q\nw = inputs.get('none', 3) + 1",
	"result = [v.driver for v in paginate(fleet.list_vehicles, pageSize=2) if v.kind in ('VEHICLE_KIND_VAN', 'OTHER') or True]",
	"result = fleet.plan_route(vehicle_id=1, stop_ids=[1], departure=timestamp('2026-06-01T06:00:00Z') + duration('60s'), stay='5s').way",
	"r = fleet.plan_route(vehicle_id=1, stop_ids=(1, 2))\nresult = r.departure == None or r.departure > '2026-06-01T06:00:00Z'",
	"o = fleet.get_order(order_id=1)\nresult = [t.seconds + t.nanos for t in [timestamp('2026-06-01T06:00:00Z'), o.placed_at] if t]\nx = getattr(o.placed_at, 'year', 1)\ny = str(o.placed_at)[:10]",
	"rs = parallel([fleet.get_order(order_id=i) for i in [1, 2]], errors=True)\nresult = [r.placed_at.seconds if r and r.placed_at else r for r in rs]",
	"result = [v.call_sign for v in paginate(fleet.list_vehicles, limit=2)]\nx = paginate(fleet.list_vehicles, limit=inputs.n)\ny = paginate(fleet.list_vehicles, **{'limit': 3})",
	"km = fleet.report_positions(items=[{'vehicle_id': '1', 'position': {}, 'observed_at': '2026-01-01T00:00:00Z'}]).distance_km\nresult = [km.get(1), 1 in km, [k + 1 for k in km], {'1': 2}['1'], dict(km).get('1')]",
	"seen = set([1])\nseen.add('a')\nresult = 'a' in seen and 2 not in seen",
	"result = {1: 'a', 'b': 2}[1] + 'c'",
	"result = [1, 2, 3][::-1] + list(range(3))[1:]\nx = 'abc'[0] + 'd'\ny = (1, 2) + (3,)",
	"result = dict([('a', 1)], b=2) | {'c': 3}",
	"result = [a + b for a, b in zip(['x'], ['y'])] + ['%s' % i for i, s in enumerate(['a'])]",
	"result = sorted([{'n': 2}, {'n': 1}], key=lambda x: x['n'], reverse=True)[0]['n'] + 1",
	"result = min(1, 2.5) + max([1, 2], key=lambda x: -x) + min([], default=0)",
	"result = int('7') + int('a', 16) + int(1.5)\nx = float('1') + 1\ny = bool([]) == False",
}

// TestRightProgramsAreNotRefused runs each program to its end and checks it.
func TestRightProgramsAreNotRefused(t *testing.T) {
	t.Parallel()
	w := world(t, catalogs[0])
	inputs := []byte(`{"s":"ORDER_STATUS_PLACED","n":1,"l":[1,2],"o":{"p":{"q":[null,{"r":"s"}]}}}`)
	for _, text := range right {
		p, faults := program.Parse(text+"\n", limits())
		if len(faults) > 0 {
			t.Logf("not in the language: %v\n%s", faults, text)
			continue
		}
		_, findings := p.Check(w, inputs)
		out := p.Run(t.Context(), w, inputs, &answers{w: w, number: map[*catalog.Tool]int{}})
		if len(findings) > 0 {
			t.Errorf("refused: %v\n%s", findings, text)
		}
		if out.Err != nil {
			t.Logf("%v %v\n%s", out.Err, out.Err.Violations, text)
		}
	}
}
