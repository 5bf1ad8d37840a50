// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// TestPages shows that paginate asks for each page once, with the arguments of the first.
func TestPages(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){
		"fleet.list_vehicles": func(_ context.Context, c *Call) ([]byte, *errmap.Error) {
			for n := range 3 {
				if n > 0 && strings.Contains(string(c.Arguments), fmt.Sprintf(`"pageToken":"p%d"`, n)) || n == 0 && !strings.Contains(string(c.Arguments), "pageToken") {
					next := fmt.Sprintf(`,"nextPageToken":"p%d"`, n+1)
					if n == 2 {
						next = ""
					}
					return fmt.Appendf(nil, `{"vehicles":[{"id":"%d"},{"id":"%d"}]%s}`, 2*n, 2*n+1, next), nil
				}
			}
			return nil, errmap.New(errmap.InvalidToolInput)
		},
	}}
	for _, tt := range []struct{ text, want string }{
		{"v = paginate(fleet.list_vehicles, page_size=2, status='VEHICLE_STATUS_IDLE')\nresult = [x.id for x in v]", `[0,1,2,3,4,5]`},
		{"result = len(paginate(fleet.list_vehicles, pageToken='p1'))", `4`},
		{"result = [x.id for x in paginate(fleet.list_vehicles, limit=3)]", `[0,1,2]`},
		{"result = [x.id for x in paginate(fleet.list_vehicles, limit=2)]", `[0,1]`},
		{"result = len(paginate(fleet.list_vehicles, limit=None))", `6`},
	} {
		out := runText(t, world, h, tt.text, "", testLimits())
		if out.Err != nil || string(out.Result) != tt.want {
			t.Errorf("%s: %s %v", tt.text, out.Result, out.Err)
		}
	}
	if n := len(h.calls); n != 3+2+2+1+3 {
		t.Errorf("%d calls: a page that is not needed was asked for", n)
	}
	for _, limit := range []string{"0", "-1", "'3'", "1.5"} {
		calls := len(h.calls)
		out := runText(t, world, h, "result = paginate(fleet.list_vehicles, limit="+limit+")", "", testLimits())
		if out.Err == nil || len(h.calls) != calls {
			t.Errorf("limit %s: %v, %d calls", limit, out.Err, len(h.calls)-calls)
		}
	}
	if want := `2 1:5 fleet.list_vehicles {"pageSize":2,"status":"VEHICLE_STATUS_IDLE","pageToken":"p1"}`; h.calls[1] != want {
		t.Errorf("the second call\n  got %s\n want %s", h.calls[1], want)
	}
}

// TestPagesInACircle shows that a list that goes in circles ends, and that one without an end is cut by the limit of calls.
func TestPagesInACircle(t *testing.T) {
	t.Parallel()
	world := worldOf(t, demoCatalog)
	n := 0
	for answer, calls := range map[string]int{`{"vehicles":[{}],"nextPageToken":"x"}`: 2, `{"vehicles":[{}],"nextPageToken":"%d"}`: 50} {
		h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){
			"fleet.list_vehicles": func(context.Context, *Call) ([]byte, *errmap.Error) {
				n++
				return []byte(strings.ReplaceAll(answer, "%d", fmt.Sprint(n))), nil
			},
		}}
		out := runText(t, world, h, "result = len(paginate(fleet.list_vehicles))", "", testLimits())
		if len(out.Calls) != calls || (out.Err != nil) != (calls == 50) {
			t.Errorf("%s: %d calls, %v", answer, len(out.Calls), out.Err)
		}
	}
}

// TestShapes shows results that are no plain messages: streams, well-known types, documents, and what is not as its type says.
func TestShapes(t *testing.T) {
	t.Parallel()
	world := worldOf(t, "../catalog/testdata/garden-buf.binpb.gz")
	for _, tt := range []struct{ name, tool, answer, text, want string }{
		{"stream", "garden_keeper.watch_plants", `{"items":[{"label":"a","leaves":"3"},{"label":"b"}],"truncated":true}`,
			"r = garden_keeper.watch_plants(label='x')\nresult = [[p.label for p in r.items], r.items[0].leaves + 1, r.items[1].leaves, r.truncated, r.items[0].planted]", `[["a","b"],4,0,true,null]`},
		{"nested", "garden_keeper.get_plant", `{"label":"a","offshoots":[{"label":"b","planted":"2026-01-01T00:00:00Z"}]}`,
			"p = garden_keeper.get_plant(label='x')\nresult = [p.offshoots[0].planted.seconds, p.offshoots[0].offshoots]", `[1767225600,[]]`},
		{"a value that is no object", "garden_keeper.put_crate", `"2026-01-01T00:00:00Z"`, "result = garden_keeper.put_crate(pots=1).value + duration('1s')", `"2026-01-01T00:00:01Z"`},
		{"the same as an object", "garden_keeper.put_crate", `{"value":"2026-01-01T00:00:00Z"}`, "result = garden_keeper.put_crate(pots=1).value + duration('1s')", `"2026-01-01T00:00:01Z"`},
		{"list value", "garden_keeper.list_http_sensors", `[1,{"a":2.5},null]`, "r = garden_keeper.list_http_sensors().value\nresult = [r[0], r[1].a, r[1]['a'], r[2]]", `[1,2.5,2.5,null]`},
		{"any", "garden_keeper.drop_crate", `{"@type":"type.googleapis.com/x.Y","name":"n"}`, "r = garden_keeper.drop_crate()\nresult = [r['@type'], r.name, r]", `["type.googleapis.com/x.Y","n",{"@type":"type.googleapis.com/x.Y","name":"n"}]`},
		{"a stream of requests", "garden_keeper.talk", `{"items":[]}`, "result = garden_keeper.talk(items=[{'label': 'a'}, garden_keeper.get_plant(label='b')]).items", `[]`},
		{"not as its type says", "garden_keeper.get_plant", `{"label":7,"leaves":"many","planted":"today","offshoots":{"a":1},"extra":1}`,
			"p = garden_keeper.get_plant(label='x')\nresult = [p.label, p.leaves, p.planted, p.offshoots.a]", `[7,"many","today",1]`},
		{"no object at all", "garden_keeper.get_plant", `[1]`, "result = garden_keeper.get_plant(label='x')", `[1]`},
		{"null", "garden_keeper.get_plant", `null`, "result = garden_keeper.get_plant(label='x')", `null`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){tt.tool: says(tt.answer)}}
			out := runText(t, world, h, tt.text, "", testLimits())
			if out.Err != nil || string(out.Result) != tt.want {
				t.Errorf("got %s, %v\nwant %s", out.Result, out.Err, tt.want)
				if out.Err != nil {
					t.Errorf("%+v", out.Err.Violations)
				}
			}
		})
	}
	out := runText(t, world, jsonHost(`{"a":`), "garden_keeper.get_plant(label='x')", "", testLimits())
	if out.Err == nil || out.Err.Code != errmap.InvalidToolOutput {
		t.Errorf("what is no JSON: %v", out.Err)
	}
}

// TestStructs shows that the entries of a Struct are attributes too, for the check and for the run, and that it is a dict for operators.
func TestStructs(t *testing.T) {
	t.Parallel()
	data, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto), protodesc.ToFileDescriptorProto(emptypb.File_google_protobuf_empty_proto),
		{
			Name: proto.String("docs.proto"), Package: proto.String("docs"), Syntax: proto.String("proto3"),
			Dependency: []string{"google/protobuf/struct.proto", "google/protobuf/empty.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Docs"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: proto.String("Get"), InputType: proto.String(".google.protobuf.Empty"), OutputType: proto.String(".google.protobuf.Struct")},
			}}},
		},
	}})
	path := filepath.Join(t.TempDir(), "docs.binpb")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	world := worldOf(t, path)
	h := &host{answers: map[string]func(context.Context, *Call) ([]byte, *errmap.Error){"docs.get": says(`{"a":{"b":[1,null]},"c":"x"}`)}}
	for text, want := range map[string]string{
		"result = [d.a.b[0], d['a']['b'], d.c, d.get('e', 2), type(d), len(d), sorted(d)]":                             `[1,[1,null],"x",2,"dict",2,["a","c"]]`,
		"result = [v for k, v in d.items() if k == 'c']":                                                               `["x"]`,
		"result = [d == {'c': 'x', 'a': {'b': [1, None]}}, {'a': {'b': [1, None]}} == d, d != {}, d == docs.get()]":    `[true,false,true,true]`,
		"result = [d.a in [{'b': [1, None]}], [d.a] == [{'b': [1, None]}], {1: d.a} == {1: {'b': [1]}}, (d,) == (1,)]": `[true,true,false,false]`,
		"x = {'e': 1}\nx |= d.a\nresult = [d.a | {'f': 2}, {'b': 0} | d.a, d.a | d.a, x]":                              `[{"b":[1,null],"f":2},{"b":[1,null]},{"b":[1,null]},{"e":1,"b":[1,null]}]`,
		"result = [inputs == {'n': {}}, inputs | {'m': 1}, {} == inputs.n]":                                            `[true,{"n":{},"m":1},true]`,
	} {
		text, inputs := "d = docs.get()\n"+text, `{"n":{}}`
		p, _ := Parse(text, testLimits())
		if _, findings := p.Check(world, []byte(inputs)); len(findings) > 0 {
			t.Errorf("%s\n%+v", text, findings)
		}
		if out := p.Run(t.Context(), world, []byte(inputs), h); out.Err != nil || string(out.Result) != want {
			t.Errorf("%s\ngot  %s %+v\nwant %s", text, out.Result, out.Err, want)
		}
	}
}
