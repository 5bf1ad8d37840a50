// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// The fields of shop.v1.Order.
const (
	orderName protowire.Number = iota + 1
	orderValidateOnly
	orderRequestID
	orderPIN
)

// shop is a service with destructive RPCs: Delete has the fields of AIP-163 and AIP-155, Drop has another RPC that previews, and Burn
// has neither.
func shop() *descriptorpb.FileDescriptorSet {
	field := func(name string, number protowire.Number, typ descriptorpb.FieldDescriptorProto_Type, options []byte) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: new(int32(number)), Type: &typ, Label: new(descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL), Options: &descriptorpb.FieldOptions{},
		}
		f.Options.ProtoReflect().SetUnknown(options)
		return f
	}
	text, flag := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BOOL
	uuid := protowire.AppendBytes(protowire.AppendTag(nil, 291403980, protowire.BytesType), []byte{8, 1})
	uuid = protowire.AppendVarint(protowire.AppendTag(uuid, 1052, protowire.VarintType), 2) // REQUIRED
	pin := field("pin", orderPIN, text, nil)
	pin.Options.DebugRedact = new(true)
	method := func(name, in string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: new(".shop.v1." + in), OutputType: new(".shop.v1.Said")}
	}
	look := method("DropLook", "Plain")
	look.Options = &descriptorpb.MethodOptions{IdempotencyLevel: new(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("Order"), Field: []*descriptorpb.FieldDescriptorProto{
				field("name", orderName, text, nil), field("validate_only", orderValidateOnly, flag, nil), field("request_id", orderRequestID, text, uuid), pin,
			}},
			{Name: new("Plain"), Field: []*descriptorpb.FieldDescriptorProto{field("name", orderName, text, nil)}},
			{Name: new("Said"), Field: []*descriptorpb.FieldDescriptorProto{field("text", 1, text, nil)}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Delete", "Order"), method("Drop", "Plain"), look, method("Burn", "Plain"),
		}}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{4, 1, 2, 0}, Span: []int32{1, 1, 1}, LeadingComments: new(" What is dropped. It is gone then.\n")},
		}},
	}}}
}

func ofShop(c *configv1.Config) {
	mark := func(method string, p *configv1.ToolPreview) {
		overlaid("shop.v1.Shop/"+method, &configv1.ToolOptions{Destructive: new(true), Preview: p})(c)
	}
	mark("Delete", nil)
	mark("Drop", &configv1.ToolPreview{Method: "DropLook"})
	mark("Burn", nil)
}

// shopkeeper is a backend that counts effects, each once by the id of its request, and breaks off as many calls after their effect.
type shopkeeper struct {
	mu       sync.Mutex
	breaks   int
	previews []string
	effects  []string
	ids      []string
	keys     []string
	answers  map[string]string
	fails    *errmap.Error
	says     string
}

func (s *shopkeeper) call(_ context.Context, m *mcptest.Method, in []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var name, id string
	isPreview := strings.HasSuffix(m.Procedure, "Look")
	for len(in) > 0 {
		num, typ, n := protowire.ConsumeTag(in)
		in = in[n:]
		if typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(in)
			isPreview, in = isPreview || v != 0, in[n:]
			continue
		}
		text, n := protowire.ConsumeString(in)
		in = in[n:]
		switch num {
		case orderName:
			name = text
		case orderRequestID:
			id = text
		}
	}
	s.ids, s.keys = append(s.ids, id), append(s.keys, h.Get(idempotencyHeader))
	text := "deleted " + name
	switch {
	case s.answers[id] != "":
		text = s.answers[id] // it knows the request
	case isPreview:
		text = "would delete " + name + s.says
		s.previews = append(s.previews, name)
	default:
		s.effects = append(s.effects, name)
	}
	if id != "" {
		if s.answers == nil {
			s.answers = map[string]string{}
		}
		s.answers[id] = text
	}
	if s.breaks > 0 {
		s.breaks--
		return nil, errmap.New(errmap.TransportError)
	}
	if s.fails != nil && isPreview {
		return nil, s.fails
	}
	return &mcptest.Answer{Body: protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)}, nil
}

// open is a shop at which destructive tools are held back as the configuration says.
func (s *shopkeeper) open(t *testing.T, configure func(*configv1.Config)) modernClient {
	t.Helper()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(shop(), "shop.v1.Shop"), Backend: mcptest.Upstream(s.call), Configure: both(ofShop, configure)})
	return modernClient{t: t, bridge: b, caller: "ann", capabilities: asksForm}
}

func TestAQuestionShowsWhatTheCallWouldDo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, call, want string
		fails            *errmap.Error
		says             string
	}{
		{name: "by a field", call: `"name":"shop_delete","arguments":{"name":"a"}`, want: `would delete a`},
		{name: "by an RPC", call: `"name":"shop_drop","arguments":{"name":"a"}`, want: `would delete a`},
		{name: "failed", call: `"name":"shop_delete","arguments":{"name":"a"}`, fails: errmap.New(errmap.ToolExecutionFailed, errmap.Message("no such order")), want: "it failed: "},
		{name: "large", call: `"name":"shop_delete","arguments":{"name":"a"}`, says: strings.Repeat("x", 5000), want: "Its preview, which changed nothing, says: "},
		{name: "without one", call: `"name":"shop_burn","arguments":{"name":"a"}`, want: `Run it with {\"name\":\"a\"} (name: What is dropped)?`},
		{name: "secrets", call: `"name":"shop_delete","arguments":{"pin":"7264","name":"a"}`, want: `Run it with {\"name\":\"a\"}?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &shopkeeper{fails: tc.fails, says: tc.says}
			ann := s.open(t, asks)
			asked := ann.send("tools/call", tc.call)
			if asked.text("resultType") != "input_required" || !strings.Contains(asked.raw, tc.want) || strings.Contains(asked.raw, "7264") || len(asked.raw) > 4000 {
				t.Fatalf("got %s, want %s", asked.raw, tc.want)
			}
			if len(s.effects) != 0 {
				t.Fatalf("the question has the effect %v", s.effects)
			}
			if got := ann.send("tools/call", strings.Replace(tc.call, `"a"`, `"b"`, 1)+consent(asked)); got.code() != -32602 {
				t.Errorf("the consent goes for other arguments: %s", got.raw)
			}
			before := len(s.previews)
			if got := ann.send("tools/call", tc.call+consent(asked)); !strings.Contains(got.raw, "deleted a") {
				t.Errorf("with consent: %s", got.raw)
			}
			if !slices.Equal(s.effects, []string{"a"}) || len(s.previews) != before {
				t.Errorf("effects %v, previews %v", s.effects, s.previews)
			}
		})
	}
}

// TestARetryOfAPreviewIsAPreview has a backend that breaks off, and remembers what it answered to each id and key.
func TestARetryOfAPreviewIsAPreview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shopkeeper{breaks: 2}
		ann := s.open(t, asks)
		const call = `"name":"shop_delete","arguments":{"name":"a"}`
		asked := ann.send("tools/call", call)
		if !strings.Contains(asked.raw, "would delete a") || len(s.effects) != 0 || len(s.ids) != 3 {
			t.Fatalf("%s, effects %v, %d attempts", asked.raw, s.effects, len(s.ids))
		}
		s.breaks = 2
		got := ann.send("tools/call", call+consent(asked))
		if !strings.Contains(got.raw, "deleted a") || !slices.Equal(s.effects, []string{"a"}) || len(s.ids) != 6 {
			t.Errorf("%s, effects %v, ids %v", got.raw, s.effects, s.ids)
		}
		if s.ids[0] != s.ids[2] || s.ids[3] != s.ids[5] || s.ids[0] == s.ids[3] || len(s.ids[0]) != 36 || s.ids[0][14] != '4' {
			t.Errorf("ids %v", s.ids)
		}
	})
}

func TestTheFormOfAPreview(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, tool, arguments string
		configure             func(*configv1.Config)
		code                  errmap.Code
		result                string
	}{
		{name: "by a field", tool: "shop.delete", arguments: `{"name":"a"}`, result: `{"text":"would delete a"}`},
		{name: "by an RPC", tool: "shop.drop", arguments: `{"name":"a"}`, result: `{"text":"would delete a"}`},
		{name: "trusted", tool: "shop.delete", arguments: `{"name":"a"}`, configure: trusted, result: `{"text":"would delete a"}`},
		{name: "without one", tool: "shop.burn", arguments: `{"name":"a"}`, configure: trusted, code: errmap.InvalidParams},
		{name: "wrong arguments", tool: "shop.delete", arguments: `{"nam":"a"}`, code: errmap.InvalidToolInput},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &shopkeeper{}
			ann := s.open(t, tc.configure)
			call := toolCall(ann.bridge, tc.tool, tc.arguments)
			call.Preview, call.Header = true, http.Header{idempotencyHeader: {"k"}}
			got := ann.bridge.Handle(t.Context(), call)
			if codeOf(got) != tc.code || string(got.Result) != tc.result || len(s.effects) != 0 {
				t.Fatalf("%v %s, effects %v", got.Err, got.Result, s.effects)
			}
			if tc.code == "" && got.Explanation != "This was a preview: nothing was changed." {
				t.Errorf("explained: %q", got.Explanation)
			}
			if slices.Contains(s.keys, "k") {
				t.Error("the backend has the key with the preview")
			}
		})
	}
}

// TestAPreviewOfTheCallersOwn is a call that sets the field itself.
func TestAPreviewOfTheCallersOwn(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*configv1.Config){"blocked": nil, "asks": asks} {
		for arguments, isPreview := range map[string]bool{
			`{"name":"a","validate_only":true}`: true, `{"validateOnly":true,"name":"a"}`: true, `{"name":"a","validateOnly":false}`: false,
			`{"name":"a"}`: false, `{"name":"a","validateOnly":null}`: false, `{"name":"validateOnly","validate_only":"true"}`: false,
		} {
			s := &shopkeeper{}
			mute := s.open(t, configure)
			mute.capabilities = `{}`
			got := mute.send("tools/call", `"name":"shop_delete","arguments":`+arguments)
			if strings.Contains(got.raw, "would delete a") != isPreview || len(s.effects) != 0 {
				t.Errorf("%s: %s: %s", name, arguments, got.raw)
			}
			if !isPreview && got.toolError() == string(errmap.DestructiveBlocked) && !strings.Contains(got.raw, "dev.outrigger/preview") {
				t.Errorf("%s: %s: no advice: %s", name, arguments, got.raw)
			}
			wire := protowire.AppendString(protowire.AppendTag(nil, orderName, protowire.BytesType), "a")
			if isPreview {
				wire = protowire.AppendVarint(protowire.AppendTag(wire, orderValidateOnly, protowire.VarintType), 1)
			}
			typed := &mcptest.Call{Origin: mute.bridge.NewOrigin(), Procedure: "/shop.v1.Shop/Delete", Wire: wire, IsWire: true}
			if got := mute.bridge.Handle(t.Context(), typed); (got.Err == nil) != isPreview || len(s.effects) != 0 {
				t.Errorf("%s: typed: %v, effects %v", name, got.Err, s.effects)
			}
		}
	}
}

// TestIDsOfRequests: they follow from the key, last for all attempts, and leave what the caller sets alone.
func TestIDsOfRequests(t *testing.T) {
	t.Parallel()
	const own = "0b1e5f6a-7c8d-4e9f-a0b1-c2d3e4f5a6b7"
	synctest.Test(t, func(t *testing.T) {
		s := &shopkeeper{}
		ann := s.open(t, both(trusted, ownHeadersOnly))
		idOf := func(arguments, key, caller string) string {
			time.Sleep(time.Hour) // so that there may be retries again
			s.breaks = 1
			call := toolCall(ann.bridge, "shop.delete", arguments)
			call.Caller = caller
			if key != "" {
				call.Header = http.Header{idempotencyHeader: {key}}
			}
			before := len(s.ids)
			if got := ann.bridge.Handle(t.Context(), call); got.Err != nil {
				t.Errorf("%s: %v", arguments, got.Err)
			}
			if len(s.ids) != before+2 || s.ids[before] != s.ids[before+1] {
				t.Fatalf("%s: attempts have the ids %v", arguments, s.ids[before:])
			}
			return s.ids[before]
		}
		byKey := idOf(`{"name":"a"}`, "order-7", "ann")
		for name, tc := range map[string]struct {
			got, want string
			isOther   bool
		}{
			"a key that is a UUID":  {got: idOf(`{"name":"b"}`, own, "ann"), want: own},
			"a UUID in upper case":  {got: idOf(`{"name":"b"}`, strings.ToUpper(own), "cid"), want: own},
			"another caller":        {got: idOf(`{"name":"a"}`, "order-7", "bob"), want: byKey, isOther: true},
			"no key":                {got: idOf(`{"name":"a"}`, "", "ann"), want: byKey, isOther: true},
			"no key, once more":     {got: idOf(`{"name":"a"}`, "", "ann"), want: idOf(`{"name":"a"}`, "", "ann"), isOther: true},
			"its own":               {got: idOf(`{"name":"a","requestId":"mine"}`, "order-8", "ann"), want: "mine"},
			"its own, by its name":  {got: idOf(`{"request_id":"mine2","name":"a"}`, "", "ann"), want: "mine2"},
			"null":                  {got: idOf(`{"name":"a","requestId":null}`, own, "dan"), want: own},
			"empty":                 {got: idOf(`{"name":"a","request_id":""}`, own, "eve"), want: own},
			"a preview of the same": {got: idOf(`{"name":"a","validateOnly":true}`, own, "fay"), want: own, isOther: true},
		} {
			if (tc.got == tc.want) == tc.isOther {
				t.Errorf("%s: %s, and it is %s", name, tc.got, tc.want)
			}
		}
		typed := protowire.AppendString(protowire.AppendTag(nil, orderName, protowire.BytesType), "a")
		call := &mcptest.Call{Origin: ann.bridge.NewOrigin(), Procedure: "/shop.v1.Shop/Delete", Wire: bytes.Clone(typed), IsWire: true}
		if got := ann.bridge.Handle(t.Context(), call); got.Err != nil || len(s.ids[len(s.ids)-1]) != 36 {
			t.Errorf("typed: %v, ids %v", got.Err, s.ids[len(s.ids)-1:])
		}
	})
}

func TestIDsOfRequestsAreFixedWhereTheRunIs(t *testing.T) {
	t.Parallel()
	var first []string
	for range 2 {
		s := &shopkeeper{}
		ann := s.open(t, both(trusted, func(c *configv1.Config) { c.Deterministic = true }))
		for range 3 {
			ann.bridge.Handle(t.Context(), toolCall(ann.bridge, "shop.delete", `{"name":"a"}`))
		}
		if first == nil {
			first = s.ids
		} else if !slices.Equal(first, s.ids) || s.ids[0] == s.ids[1] {
			t.Errorf("ids %v, then %v", first, s.ids)
		}
	}
}

// TestPreviewsAreAudited: one that was asked for, and one for a question.
func TestPreviewsAreAudited(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		s := &shopkeeper{}
		path, configure := audited(t, func(a *configv1.Audit) { a.Required = required })
		ann := s.open(t, both(asks, configure))
		call := toolCall(ann.bridge, "shop.delete", `{"name":"a"}`)
		call.Preview = true
		ann.bridge.Handle(t.Context(), call)
		asked := ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`)
		ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`+consent(asked))
		testkit.Until(t, "the lines are there", func() bool {
			text, err := os.ReadFile(path)
			return err == nil && bytes.Count(text, []byte(`"phase":"end"`)) == 3 && bytes.HasSuffix(text, []byte("\n"))
		})
		var got []string
		for _, line := range linesWith(trail(t, path), "phase", "end") {
			got = append(got, fmt.Sprint(line["decision"], " ", line["preview"]))
		}
		if want := []string{"allowed true", "asked true", "consented <nil>"}; !slices.Equal(got, want) {
			t.Errorf("required %t: %q, want %q", required, got, want)
		}
	}
}

// TestAConsentHasOneID: replicas that do not share what they have accepted send the same request.
func TestAConsentHasOneID(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789ABCDEF"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &shopkeeper{}
	key := func(c *configv1.Config) { c.State.KeyFile = file }
	one, other := s.open(t, both(asks, key)), s.open(t, both(asks, key))
	const call = `"name":"shop_delete","arguments":{"name":"a"}`
	yes := consent(one.send("tools/call", call))
	for _, at := range []modernClient{one, other} {
		if got := at.send("tools/call", call+yes); !strings.Contains(got.raw, "deleted a") {
			t.Error(got.raw)
		}
	}
	if !slices.Equal(s.effects, []string{"a"}) {
		t.Errorf("effects %v, ids %v", s.effects, s.ids)
	}
}

// TestATakenOverCallHasItsID: another replica may run a call again whose request has an id.
func TestATakenOverCallHasItsID(t *testing.T) {
	t.Parallel()
	s := &shopkeeper{}
	ann := s.open(t, trusted)
	wire := protowire.AppendString(protowire.AppendTag(nil, orderName, protowire.BytesType), "a")
	wire = protowire.AppendString(protowire.AppendTag(wire, orderRequestID, protowire.BytesType), "id")
	stored, err := proto.Marshal(&statev1.TaskCall{Tool: "shop.delete", Procedure: "/shop.v1.Shop/Delete", Wire: wire})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := ann.bridge.TakeOver(t.Context(), stored); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(s.effects, []string{"a"}) || !slices.Equal(s.ids, []string{"id", "id"}) {
		t.Errorf("effects %v, ids %v", s.effects, s.ids)
	}
}

// TestWhatIsHiddenOfAPreviewingTool is hidden where it previews in the name of another one.
func TestWhatIsHiddenOfAPreviewingTool(t *testing.T) {
	t.Parallel()
	classes := []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}}}
	for name, configure := range map[string]func(*configv1.Config){
		"class": func(c *configv1.Config) {
			c.Access.Policy = &configv1.Policy{Classes: classes}
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "shop.v1.Shop/DropLook", VisibleTo: map[string]string{"text": "pii"}})
		},
		"rule": func(c *configv1.Config) {
			c.Access.Policy = &configv1.Policy{Rules: []*configv1.PolicyRule{{Name: "hidden", On: "result", Effect: "hide", When: "true", Tools: []string{"shop.drop_look"}, Fields: []string{"shop.v1.Said.text"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shopkeeper{}
			ann := s.open(t, both(trusted, configure))
			const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{"name":"a"},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"dev.outrigger/preview":%t}}}`
			look := ann.sendRaw(fmt.Sprintf(call, "shop_drop_look", false))
			if got := ann.sendRaw(fmt.Sprintf(call, "shop_drop", true)); strings.Contains(look.raw+got.raw, "would delete") || len(s.previews) != 2 {
				t.Errorf("%s, and as a preview %s", look.raw, got.raw)
			}
		})
	}
}

// TestReplayWithoutTheRequestID: each call has another one.
func TestReplayWithoutTheRequestID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const line = `{"timestamp":"2026-01-01T00:00:00.000000Z","requestId":"1","tool":"shop.%s","input":%s,"output":%s,"error":%s,"durationMs":1}` + "\n"
	text := fmt.Sprintf(line, "delete", `{"name":"a","requestId":"x"}`, `{"text":"deleted a"}`, "null") +
		fmt.Sprintf(line, "burn", `{"name":"a"}`, "null", `{"error_message":"wait","error_details":{"code":"APPROVAL_REQUIRED"}}`)
	if err := os.WriteFile(filepath.Join(dir, "calls.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) modernClient {
		parts := mcptest.Parts{From: mcptest.Files(shop(), "shop.v1.Shop"), Configure: both(ofShop, trusted)}
		return modernClient{t: t, bridge: mcptest.Recorded(t, dir, "exact", parts), caller: "ann"}
	}
	ann := open(dir)
	if got := ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`).raw; !strings.Contains(got, "deleted a") {
		t.Error(got)
	}
	if got := ann.send("tools/call", `"name":"shop_burn","arguments":{"name":"a"}`).raw; strings.Contains(got, "APPROVAL_REQUIRED") {
		t.Errorf("what was decided here is replayed: %s", got)
	}
	ann = open("")
	if first, second := ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`).raw, ann.send("tools/call", `"name":"shop_delete","arguments":{"name":"a"}`).raw; between(t, first, `"text":"`, `"}`) != between(t, second, `"text":"`, `"}`) {
		t.Errorf("%s, then %s", first, second)
	}
}

// TestReplayedPreviews answer previews, and no call with its effect.
func TestReplayedPreviews(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{"name":"a"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"dev.outrigger/preview":%t}}}`
	for _, tool := range []string{"shop_delete", "shop_drop"} {
		dir := t.TempDir()
		t.Run("recorded "+tool, func(t *testing.T) {
			ann := (&shopkeeper{}).open(t, both(trusted, recording(dir)))
			if got := ann.sendRaw(fmt.Sprintf(call, tool, true)).raw; !strings.Contains(got, "would delete a") {
				t.Error(got)
			}
		})
		parts := mcptest.Parts{From: mcptest.Files(shop(), "shop.v1.Shop"), Configure: both(ofShop, trusted)}
		ann := modernClient{t: t, bridge: mcptest.Recorded(t, dir, "any", parts), caller: "ann"}
		if got := ann.sendRaw(fmt.Sprintf(call, tool, true)).raw; !strings.Contains(got, "would delete a") {
			t.Errorf("%s as a preview: %s", tool, got)
		}
		if got := ann.sendRaw(fmt.Sprintf(call, tool, false)).raw; strings.Contains(got, "would delete a") {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

// TestAPreviewOnEveryEdge: the form of a call that previews, on every edge and in every dialect, with neither effect nor question. What is
// no preview, is refused as before.
func TestAPreviewOnEveryEdge(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"dev.outrigger/preview":%t}`
	grpc := []string{"Content-Type", "application/grpc", "Te", "trailers"}
	framedCall := func(tool string, preview bool) string {
		in, _ := proto.Marshal(&outriggerv1.ToolCall{
			ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"a"}`)},
			MetaForm: &outriggerv1.ToolCall_MetaJson{MetaJson: fmt.Appendf(nil, `{"dev.outrigger/preview":%t}`, preview)},
		})
		return framed(in)
	}
	plain := func(preview bool, tool string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":%q,"arguments":{"name":"a"},`+meta+`}}`, tool, preview)
	}
	ways := map[string]func(g *taintRig, tool string, preview bool) string{
		"/rpc": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.one, "/rpc", plain(preview, tool))
		},
		"/rpc, in a batch": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.one, "/rpc", "["+plain(preview, tool)+"]")
		},
		"MCP, modern": func(g *taintRig, tool string, preview bool) string {
			name := strings.ReplaceAll(tool, ".", "_")
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"name":"a"},"_meta":{"dev.outrigger/preview":%t,`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, name, preview)
			return g.post(t, g.one, "/mcp", body, "Accept", eitherForm, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
		},
		"MCP, legacy": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.two, "/mcp", plain(preview, strings.ReplaceAll(tool, ".", "_")), "Accept", eitherForm, "Mcp-Protocol-Version", "2025-11-25")
		},
		"stdio": func(g *taintRig, tool string, preview bool) string {
			var out bytes.Buffer
			if err := g.rig.Stdio(t.Context(), strings.NewReader(plain(preview, tool)+"\n"), &out); err != nil {
				t.Error(err)
			}
			return out.String()
		},
		"ToolService": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.one, "/outrigger.v1.ToolService/CallTool", fmt.Sprintf(`{"tool_name":%q,"arguments":{"name":"a"},"meta":{"dev.outrigger/preview":%t}}`, tool, preview))
		},
		"ToolService, gRPC": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.two, "/outrigger.v1.ToolService/CallTool", framedCall(tool, preview), grpc...)
		},
		"ToolService, events": func(g *taintRig, tool string, preview bool) string {
			return g.post(t, g.two, "/outrigger.v1.ToolService/CallToolStream", framedCall(tool, preview), grpc...)
		},
		"ToolService, Exchange": func(g *taintRig, tool string, preview bool) string {
			in, _ := proto.Marshal(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
				Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: "tools/call",
				ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: fmt.Appendf(nil, `{"name":%q,"arguments":{"name":"a"},`+meta+`}`, tool, preview)},
			}}})
			return g.post(t, g.two, "/outrigger.v1.ToolService/Exchange", framed(in), grpc...)
		},
	}
	for name, way := range ways {
		s := &shopkeeper{}
		rig := s.open(t, nil).bridge
		g := &taintRig{rig: rig, url: rig.Serve(t), one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
		for _, tool := range []string{"shop.delete", "shop.drop"} {
			if got := way(g, tool, true); leak(got, "would delete a") == "" || !strings.Contains(got, "nothing was changed") {
				t.Errorf("%s: %s as a preview: %.1000s", name, tool, got)
			}
			if got := way(g, tool, false); leak(got, "would delete a") != "" || !strings.Contains(got, "Destructive tool blocked") {
				t.Errorf("%s: %s: %.1000s", name, tool, got)
			}
		}
		if got := way(g, "shop.burn", true); !strings.Contains(got, "Destructive tool blocked") || leak(got, "deleted") != "" {
			t.Errorf("%s: a tool without a preview: %.1000s", name, got)
		}
		if !slices.Equal(s.previews, []string{"a", "a"}) || len(s.effects) > 0 {
			t.Errorf("%s: previews %v, effects %v", name, s.previews, s.effects)
		}
	}
}
