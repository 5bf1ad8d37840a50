// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// maxFuzzedText bounds the text that is put into each value.
const maxFuzzedText = 200

// fuzzedFields are the fields to which classes fall, and their paths in the results of Get and List; none for details of errors.
func fuzzedFields() [][]string {
	out := [][]string{{"shop.v1.Conflict.email"}, {"shop.v1.Conflict.kind"}}
	for _, name := range []string{"name", "email", "labels", "facts", "phones", "photo"} {
		out = append(out, []string{"shop.v1.Customer." + name, name, "customers." + name})
	}
	for _, name := range []string{"street", "city"} {
		out = append(out, []string{"shop.v1.Address." + name, "home." + name, "customers.home." + name})
	}
	return out
}

// fuzzed is what one round of the fuzzer says: which fields have a class, and by what, what its callers get, and a text of all values.
type fuzzed struct {
	classes, byPath uint16
	otherwise, text string
}

func (f *fuzzed) has(field string) bool {
	for i, names := range fuzzedFields() {
		if names[0] == field {
			return f.classes>>i&1 == 1
		}
	}
	return false
}

// value is that of a field: with the taint where the field has a class.
func (f *fuzzed) value(field string) string {
	if f.has(field) {
		return f.text + taint + f.text
	}
	return f.text + plainText
}

func (f *fuzzed) address() []byte {
	return wireText(wireText(nil, 1, f.value("shop.v1.Address.street")), 2, f.value("shop.v1.Address.city"))
}

func (f *fuzzed) customer() []byte {
	value := func(name string) string { return f.value("shop.v1.Customer." + name) }
	out := wirePart(wireText(wireText(nil, 1, value("name")), 2, value("email")), 3, f.address())
	out = wirePart(out, 4, wireText(wireText(nil, 1, "key"), 2, value("labels")))
	out = wirePart(out, 5, wirePart(wireText(nil, 1, "type.googleapis.com/shop.v1.Address"), 2, f.address()))
	out = wirePart(out, 6, wirePart(nil, 1, wirePart(wireText(nil, 1, value("facts")), 2, wireText(nil, 3, value("facts")))))
	return wireText(wireText(wireText(out, 7, value("phones")), 7, value("phones")), 8, value("photo"))
}

// answer is what the backend answers to a method: an error where fails is set.
func (f *fuzzed) answer(method string, fails bool) (*mcptest.Answer, *errmap.Error) {
	header := http.Header{"X-Shop-Note": {f.value("shop.v1.Customer.email")}}
	if fails {
		conflict := wireText(wireText(nil, 1, f.value("shop.v1.Conflict.email")), 2, f.value("shop.v1.Conflict.kind"))
		return &mcptest.Answer{Trailer: header}, errmap.New(errmap.ToolExecutionFailed, errmap.BackendCode("failed_precondition"),
			errmap.Message("no "+f.value("shop.v1.Customer.email")), errmap.Details(&anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Conflict", Value: conflict}))
	}
	body := f.customer()
	if method == "List" {
		body = wirePart(wirePart(nil, 1, body), 1, body)
	}
	return &mcptest.Answer{Body: body, Header: header}, nil
}

// configure gives the fields their classes, by the policy or by paths of the overlay.
func (f *fuzzed) configure(c *configv1.Config) {
	c.Trust = proto.String("trusted")
	c.Backend.Metadata.Outbound = []string{"x-shop-*"}
	c.Access.Policy = &configv1.Policy{Classes: []*configv1.FieldClass{{Name: "pii", Callers: []string{"support"}, Otherwise: f.otherwise}}, Fields: map[string]string{}}
	paths := map[string]string{}
	for i, names := range fuzzedFields() {
		switch {
		case f.classes>>i&1 == 0:
		case len(names) == 1 || f.byPath>>i&1 == 0:
			c.Access.Policy.Fields[names[0]] = "pii"
		default:
			paths[names[1]], paths[names[2]] = "pii", "pii"
		}
	}
	c.Tools = []*configv1.ToolOverlay{
		{Method: "shop.v1.Shop/*", VisibleTo: paths},
		{Method: "shop.v1.Shop/Get", Resource: &configv1.ResourceOptions{UriTemplate: "shop://customers/{id}"}},
		{Method: "shop.v1.Shop/List", Tool: &configv1.ToolOptions{ResultBudget: proto.Int64(300)}},
	}
}

// FuzzTaint: whatever fields have a class, whatever is in them and whatever is asked, no value of a class leaves on any edge, and none is
// recorded.
func FuzzTaint(f *testing.F) {
	f.Add(uint16(0x0ff), uint16(0), byte(0), "", "1", "")
	f.Add(uint16(0x3fe), uint16(0x3ff), byte(1), "x\"<\u00e9\n", `a"b`, "name,extra")
	f.Add(uint16(0x155), uint16(0x0f0), byte(2), "\\u0041", "\u2028", "customers.email")
	f.Add(uint16(0x2aa), uint16(0x3c3), byte(3), "%41", "", "home")
	f.Add(uint16(0x3ff), uint16(0x1b6), byte(4), "AAAA", "1", "facts,*")
	f.Fuzz(func(t *testing.T, classes, byPath uint16, how byte, text, id, fields string) {
		if len(text) > maxFuzzedText || len(id)+len(fields) > maxFuzzedText || leak(text+id+fields, taint) != "" {
			t.Skip("it is too long, or has the taint itself")
		}
		of := &fuzzed{classes: classes, byPath: byPath, otherwise: []string{"hide", "mask", "hash", "deny"}[how%4], text: strings.ToValidUTF8(text, "?")}
		fails := how&4 != 0
		core, logged := observer.New(zap.DebugLevel)
		g := &taintRig{dir: t.TempDir(), logged: logged}
		g.rig = mcptest.Pipe(t, mcptest.Parts{
			From: mcptest.Files(taintDescriptors(byPolicy), "shop.v1.Shop"),
			Backend: mcptest.Upstream(func(_ context.Context, m *mcptest.Method, _ []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
				return of.answer(string(m.Descriptor.Name()), fails)
			}),
			Log: zap.New(core),
			Configure: func(c *configv1.Config) {
				c.Record.Dir, c.Record.Payloads = proto.String(filepath.Join(g.dir, "records")), true
				c.Audit.Path, c.Audit.Payloads = proto.String(filepath.Join(g.dir, "audit.jsonl")), true
				of.configure(c)
			},
		})
		if !fails && of.has("shop.v1.Customer.email") {
			got := all(g.rig.Handle(support(t), &mcptest.Call{Tool: "shop.get", Arguments: "{}"}))
			if leak(got, taint) == "" {
				t.Errorf("support does not see it: %.2000s", got)
			}
		}
		for _, out := range append(of.ask(t, g.rig, id, fields), g.kept(t)) {
			if form := leak(out, taint); form != "" {
				t.Errorf("the taint leaves (%s): %.2000s", form, out)
			}
		}
	})
}

// ask asks for everything that the tools have, and returns what comes back.
func (f *fuzzed) ask(t *testing.T, rig *mcptest.Rig, id, fields string) (out []string) {
	t.Helper()
	id = strings.ToValidUTF8(id, "?")
	raw, err := json.Marshal(map[string]string{"id": id})
	if err != nil {
		t.Fatal(err)
	}
	arguments := string(raw)
	for _, tool := range []string{"shop.get", "shop.list"} {
		out = append(out,
			all(rig.Handle(t.Context(), &mcptest.Call{Tool: tool, Arguments: arguments, Fields: fields})),
			all(rig.Handle(t.Context(), &mcptest.Call{Tool: tool, Arguments: arguments, Budget: 100 + len(id)})))
		for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
			name, meta := tool, ""
			if d != mcptest.Canonical {
				name = mcpName(tool)
			}
			if d == mcptest.Modern {
				meta = "," + modernParams
			}
			out = append(out, string(replyTo(t.Context(), t, rig, d, "tools/call", `"name":"`+name+`","arguments":`+arguments+meta)))
		}
	}
	for procedure, wire := range map[string][]byte{"/shop.v1.Shop/Get": wireText(nil, 1, id), "/shop.v1.Shop/List": nil} {
		out = append(out, all(rig.Handle(t.Context(), &mcptest.Call{Procedure: procedure, Wire: wire, IsWire: true})))
	}
	read := replyTo(t.Context(), t, rig, mcptest.Modern, "resources/read", `"uri":"shop://customers/1",`+modernParams)
	list := replyTo(t.Context(), t, rig, mcptest.Modern, "tools/list", modernParams)
	return slices.Concat(out, []string{string(read), string(list), fmt.Sprint(rig.Live.Status())})
}
