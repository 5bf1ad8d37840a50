// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	spb "google.golang.org/genproto/googleapis/rpc/status"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
)

// taint is in every value of the tainted service's messages that has a class.
const taint = "tAiNt7Qx9ZkW3"

// plainText is in values that have none.
const plainText = "pLaIn5Rb2"

// taintedFields are those that have a class, by full names.
func taintedFields() []string {
	return []string{
		"shop.v1.Customer.email", "shop.v1.Customer.labels", "shop.v1.Customer.facts", "shop.v1.Customer.phones", "shop.v1.Customer.photo",
		"shop.v1.Address.street", "shop.v1.Conflict.email",
	}
}

// How the fields of a tainted service get their class.
const (
	byPolicy  = "fields of the policy"
	byOption  = "options of the fields"
	byOverlay = "paths of the overlay"
)

// taintPaths are the same fields by their paths in the results of the methods. Details of errors are no part of a result.
func taintPaths() []string {
	return []string{
		"email", "labels", "facts", "phones", "photo", "home.street",
		"customers.email", "customers.labels", "customers.facts", "customers.phones", "customers.photo", "customers.home.street",
	}
}

// classify gives the fields their class.
func classify(c *configv1.Config, marks string) {
	switch marks {
	case byPolicy:
		for _, name := range taintedFields() {
			c.Access.Policy.Fields[name] = "pii"
		}
	case byOverlay:
		c.Access.Policy.Fields["shop.v1.Conflict.email"] = "pii"
		paths := map[string]string{}
		for _, path := range taintPaths() {
			paths[path] = "pii"
		}
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "shop.v1.Shop/*", VisibleTo: paths})
	}
}

// markOptions gives the fields of a file their class by an option.
func markOptions(file *descriptorpb.FileDescriptorProto) {
	file.Dependency = append(file.Dependency, "outrigger/v1/options.proto")
	for _, m := range file.GetMessageType() {
		for _, fd := range m.GetField() {
			if slices.Contains(taintedFields(), file.GetPackage()+"."+m.GetName()+"."+fd.GetName()) {
				fd.Options = &descriptorpb.FieldOptions{}
				proto.SetExtension(fd.GetOptions(), optionsv1.E_Field, &optionsv1.FieldOptions{VisibleTo: "pii"})
			}
		}
	}
}

// taintField is a field of a message of the tainted service.
func taintField(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, repeated bool) *descriptorpb.FieldDescriptorProto {
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	if repeated {
		label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	}
	out := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label}
	if of != "" {
		out.TypeName = &of
	}
	return out
}

// taintDescriptors are those of the tainted service, shop.v1.Shop.
func taintDescriptors(marks string) *descriptorpb.FileDescriptorSet {
	const (
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		number  = descriptorpb.FieldDescriptorProto_TYPE_INT32
		raw     = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	set := mcptest.Descriptors(longrunningpb.File_google_longrunning_operations_proto, optionsv1.File_outrigger_v1_options_proto)
	structs := mcptest.Descriptors((&outriggerv1.ToolResult{}).ProtoReflect().Descriptor().ParentFile())
	for _, file := range structs.GetFile() {
		has := slices.ContainsFunc(set.GetFile(), func(other *descriptorpb.FileDescriptorProto) bool { return other.GetName() == file.GetName() })
		if !has && file.GetName() == "google/protobuf/struct.proto" {
			set.File = append(set.File, file)
		}
	}
	labels := &descriptorpb.DescriptorProto{
		Name: proto.String("LabelsEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		Field: []*descriptorpb.FieldDescriptorProto{taintField("key", 1, text, "", false), taintField("value", 2, text, "", false)},
	}
	method := func(name, out string, in, answers bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: proto.String(".shop.v1.GetRequest"), OutputType: &out, ClientStreaming: &in, ServerStreaming: &answers,
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()},
		}
	}
	begin := method("Import", ".google.longrunning.Operation", false, false)
	begin.Options = &descriptorpb.MethodOptions{}
	proto.SetExtension(begin.GetOptions(), longrunningpb.E_OperationInfo, &longrunningpb.OperationInfo{ResponseType: "Customer", MetadataType: "Address"})
	set.File = append(set.File, &descriptorpb.FileDescriptorProto{
		Name: proto.String("shop.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/longrunning/operations.proto", "google/protobuf/any.proto", "google/protobuf/struct.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("GetRequest"), Field: []*descriptorpb.FieldDescriptorProto{
				taintField("id", 1, text, "", false), taintField("page_size", 2, number, "", false), taintField("page_token", 3, text, "", false),
			}},
			{Name: proto.String("Address"), Field: []*descriptorpb.FieldDescriptorProto{taintField("street", 1, text, "", false), taintField("city", 2, text, "", false)}},
			{Name: proto.String("Conflict"), Field: []*descriptorpb.FieldDescriptorProto{taintField("email", 1, text, "", false), taintField("kind", 2, text, "", false)}},
			{Name: proto.String("Customer"), NestedType: []*descriptorpb.DescriptorProto{labels}, Field: []*descriptorpb.FieldDescriptorProto{
				taintField("name", 1, text, "", false), taintField("email", 2, text, "", false), taintField("home", 3, message, ".shop.v1.Address", false),
				taintField("labels", 4, message, ".shop.v1.Customer.LabelsEntry", true), taintField("extra", 5, message, ".google.protobuf.Any", true),
				taintField("facts", 6, message, ".google.protobuf.Struct", false), taintField("phones", 7, text, "", true), taintField("photo", 8, raw, "", false),
			}},
			{Name: proto.String("ListResponse"), Field: []*descriptorpb.FieldDescriptorProto{
				taintField("customers", 1, message, ".shop.v1.Customer", true), taintField("next_page_token", 2, text, "", false),
			}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Get", ".shop.v1.Customer", false, false), method("Slow", ".shop.v1.Customer", false, false),
			method("List", ".shop.v1.ListResponse", false, false), method("Feed", ".shop.v1.Customer", false, true),
			method("Chat", ".shop.v1.Customer", true, true), begin,
		}}},
	})
	if marks == byOption {
		markOptions(set.GetFile()[len(set.GetFile())-1])
	}
	return set
}

// wireText and wirePart append a field of a message.
func wireText(dst []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), text)
}

func wirePart(dst []byte, number protowire.Number, part []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), part)
}

// customer is the wire form of a Customer with the taint in every place that has a class, and in unknown fields.
func customer() []byte {
	address := wireText(wireText(nil, 1, "1 "+taint+" Street"), 2, plainText)
	out := wireText(wireText(nil, 1, plainText+" name"), 2, taint+`@"example".com`)
	out = wirePart(out, 3, wireText(slices.Clone(address), 99, taint))
	out = wirePart(out, 4, wireText(wireText(nil, 1, "key"), 2, "x"+taint)) // keys of a map that is masked stay
	for i, url := range []string{"type.googleapis.com/shop.v1.Address", "type.googleapis.com/shop.v1.Unknown"} {
		held := address
		if i > 0 {
			held = wireText(nil, 1, taint)
		}
		out = wirePart(out, 5, wirePart(wireText(nil, 1, url), 2, held))
	}
	inner := wirePart(wireText(nil, 1, "yy"+taint), 2, wireText(nil, 3, taint))
	out = wirePart(out, 6, wirePart(nil, 1, inner))
	out = wireText(wireText(out, 7, "+1"+taint), 7, "+22"+taint)
	return wireText(wireText(out, 8, "\x00\xff"+taint), 77, taint)
}

// tainted is a gRPC backend of shop.v1.Shop; mode says how it answers.
type tainted struct{ mode atomic.Value }

// ServeHTTP implements [http.Handler].
func (b *tainted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode, _ := b.mode.Load().(string)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("X-Shop-Note", taint)
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, X-Shop-Trailer")
	_, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	answers := [][]byte{customer()}
	switch method {
	case "List":
		answers[0] = wirePart(wirePart(wirePart(nil, 1, customer()), 1, customer()), 1, customer())
	case "Feed", "Chat":
		answers = append(answers, customer())
	case "Import", "GetOperation", "WaitOperation":
		answers[0] = operation(mode)
	}
	if method == "Chat" {
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
	} else {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	isFailing := mode == "error" || mode == "break" && (method == "Feed" || method == "Chat")
	if mode == "error" && !strings.Contains(method, "Operation") && method != "Import" || mode == "invalid" {
		answers = answers[:0]
	}
	if mode == "invalid" {
		answers = [][]byte{append(customer(), 0x0a, 0x7f, 'x')}
	}
	for _, answer := range answers {
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer)))
		_, _ = w.Write(append(frame, answer...))
	}
	w.Header().Set("X-Shop-Trailer", taint)
	w.Header().Set("Grpc-Status", "0")
	if isFailing && method != "GetOperation" && method != "WaitOperation" && method != "Import" {
		failed := failure()
		raw, _ := proto.Marshal(failed)
		w.Header().Set("Grpc-Status", fmt.Sprint(failed.GetCode()))
		w.Header().Set("Grpc-Message", failed.GetMessage())
		w.Header().Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(raw))
	}
}

// failure is a status with the taint in all its parts.
func failure() *spb.Status {
	return &spb.Status{Code: 9, Message: "no customer " + taint, Details: []*anypb.Any{
		{TypeUrl: "type.googleapis.com/shop.v1.Conflict", Value: wireText(wireText(nil, 1, taint), 2, plainText)},
		{TypeUrl: "type.googleapis.com/shop.v1.Unknown", Value: wireText(nil, 1, taint)},
		{TypeUrl: "type.googleapis.com/google.rpc.LocalizedMessage", Value: wireText(wireText(nil, 1, "en"), 2, taint)},
		{TypeUrl: "type.googleapis.com/google.rpc.ErrorInfo", Value: wirePart(wireText(wireText(nil, 1, "R"), 2, "shop"), 3, wireText(wireText(nil, 1, "k"), 2, taint))},
		{TypeUrl: "type.googleapis.com/google.rpc.BadRequest", Value: wirePart(nil, 1, wireText(wireText(nil, 1, "id"), 2, taint))},
		freeForm(), {TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: wireText(nil, 1, taint)},
	}}
}

// freeForm is a Struct with the taint, which no field holds that could have a class.
func freeForm() *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Struct", Value: wirePart(nil, 1, wirePart(wireText(nil, 1, "k"), 2, wireText(nil, 3, taint)))}
}

func operation(mode string) []byte {
	op := &longrunningpb.Operation{
		Name: "operations/1", Done: true, Metadata: &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Address", Value: wireText(nil, 1, taint)},
		Result: &longrunningpb.Operation_Response{Response: &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Customer", Value: customer()}},
	}
	switch mode {
	case "error":
		op.Result = &longrunningpb.Operation_Error{Error: failure()}
	case "break":
		op.Metadata, op.Result = freeForm(), &longrunningpb.Operation_Response{Response: freeForm()}
	}
	out, _ := proto.Marshal(op)
	return out
}

// taintRig is a sidecar in front of the tainted service.
type taintRig struct {
	backend   *tainted
	otherwise string
	url, dir  string
	one, two  *http.Client
	rig       *mcptest.Rig
	logged    *observer.ObservedLogs
}

// newTaintRig starts one; otherwise is what callers get in the place of values of the class, empty without a policy.
func newTaintRig(t *testing.T, otherwise string, rules func(mcptest.Rules) mcptest.Rules) *taintRig {
	t.Helper()
	return newMarkedRig(t, byPolicy, otherwise, rules, nil)
}

// newMarkedRig is the same for one of the ways in which fields get a class, with a configuration that may be changed further.
func newMarkedRig(t *testing.T, marks, otherwise string, rules func(mcptest.Rules) mcptest.Rules, configure func(*configv1.Config)) *taintRig {
	t.Helper()
	out := &taintRig{backend: &tainted{}, otherwise: otherwise, dir: t.TempDir(), one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
	out.backend.mode.Store("ok")
	parts := mcptest.Parts{From: mcptest.Files(taintDescriptors(marks), "shop.v1.Shop", "google.longrunning.Operations"), Behind: mcptest.Serve(t, out.backend)}
	parts.Adjust.Rules = rules
	core, logged := observer.New(zap.DebugLevel)
	parts.Log, out.logged = zap.New(core), logged
	parts.Configure = func(c *configv1.Config) {
		c.Trust = proto.String("trusted")
		c.Timeout = durationpb.New(20 * time.Second)
		c.Record.Dir, c.Record.Payloads = proto.String(filepath.Join(out.dir, "records")), true
		c.Audit.Path, c.Audit.Payloads = proto.String(filepath.Join(out.dir, "audit.jsonl")), true
		if otherwise != "" {
			c.Access.Policy = &configv1.Policy{
				Classes: []*configv1.FieldClass{{Name: "pii", Callers: []string{"support"}, Otherwise: otherwise}}, Fields: map[string]string{},
			}
			classify(c, marks)
		}
		c.Backend.Metadata.Outbound = []string{"x-shop-*"} // a pattern lets nothing through that a caller may not see
		on := true
		c.Tools = append(c.Tools,
			&configv1.ToolOverlay{Method: "shop.v1.Shop/Slow", Tool: &configv1.ToolOptions{TaskSupport: "optional"}},
			&configv1.ToolOverlay{Method: "shop.v1.Shop/List", Tool: &configv1.ToolOptions{ResultBudget: proto.Int64(200)}, Resource: &configv1.ResourceOptions{
				UriTemplate: "shop://people/{name}", ItemsField: "customers", NameField: "email",
			}},
			&configv1.ToolOverlay{Method: "shop.v1.Shop/Feed", Tool: &configv1.ToolOptions{Watch: &on}},
			&configv1.ToolOverlay{Method: "shop.v1.Shop/Get", Resource: &configv1.ResourceOptions{UriTemplate: "shop://customers/{id}"}},
		)
		if configure != nil {
			configure(c)
		}
	}
	out.rig = mcptest.Pipe(t, parts)
	out.url = out.rig.Serve(t)
	return out
}

// post sends a body and returns all that comes back: header, body and trailer.
func (g *taintRig) post(t *testing.T, client *http.Client, path, body string, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Log(err)
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, resp.Status)
	_ = resp.Header.Write(&out)
	out.Write(raw)
	_ = resp.Trailer.Write(&out)
	return out.String()
}

// modern asks as MCP 2026-07-28 does.
func (g *taintRig) modern(t *testing.T, method, name, params, capabilities, accept string) string {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `,"progressToken":1}`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, strings.TrimPrefix(params+","+meta, ","))
	header := []string{"Accept", accept, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return g.post(t, g.one, "/mcp", body, header...)
}

const eitherForm = "application/json, text/event-stream"

// framed is a message of gRPC.
func framed(message []byte) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// taintWay is one way out of the sidecar.
type taintWay struct {
	name string
	// tools it can call; the name is written with a dot.
	run func(t *testing.T, g *taintRig, tool string) string
}

func taintWays() []taintWay {
	mcpName := func(tool string) string { return strings.ReplaceAll(tool, ".", "_") }
	arguments := func(tool string) string {
		if strings.HasSuffix(tool, "chat") {
			return `{"items":[{"id":"1"}]}`
		}
		return `{"id":"1"}`
	}
	call := func(tool string) string { return fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments(tool)) }
	ways := []taintWay{
		{"/rpc", func(t *testing.T, g *taintRig, tool string) string {
			return g.post(t, g.one, "/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{`+call(tool)+`}}`)
		}},
		{"/rpc, message form", func(t *testing.T, g *taintRig, tool string) string {
			return g.post(t, g.one, "/rpc", fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":%q,"arguments":%s}}`, tool, arguments(tool)))
		}},
		{"MCP, modern", func(t *testing.T, g *taintRig, tool string) string {
			return g.modern(t, "tools/call", mcpName(tool), call(mcpName(tool)), "{}", eitherForm)
		}},
		{"MCP, modern, events", func(t *testing.T, g *taintRig, tool string) string {
			return g.modern(t, "tools/call", mcpName(tool), call(mcpName(tool)), "{}", "text/event-stream")
		}},
		{"MCP, legacy", func(t *testing.T, g *taintRig, tool string) string {
			return g.post(t, g.two, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+call(mcpName(tool))+`}}`,
				"Accept", eitherForm, "Mcp-Protocol-Version", "2025-11-25")
		}},
		{"stdio", func(t *testing.T, g *taintRig, tool string) string {
			var out bytes.Buffer
			in := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,%s}}`+"\n", call(mcpName(tool)), modernMeta)
			if err := g.rig.Stdio(t.Context(), strings.NewReader(in), &out); err != nil {
				t.Error(err)
			}
			return out.String()
		}},
		{"ToolService", func(t *testing.T, g *taintRig, tool string) string {
			return g.post(t, g.one, "/outrigger.v1.ToolService/CallTool", fmt.Sprintf(`{"tool_name":%q,"arguments":%s}`, tool, arguments(tool)))
		}},
		{"ToolService, gRPC", func(t *testing.T, g *taintRig, tool string) string {
			in, _ := proto.Marshal(&outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments(tool))}})
			return g.post(t, g.two, "/outrigger.v1.ToolService/CallToolStream", framed(in), "Content-Type", "application/grpc", "Te", "trailers")
		}},
		{"ToolService, Exchange", func(t *testing.T, g *taintRig, tool string) string {
			in, _ := proto.Marshal(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
				Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: "tools/call",
				ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte("{" + call(tool) + "}")},
			}}})
			return g.post(t, g.two, "/outrigger.v1.ToolService/Exchange", framed(in), "Content-Type", "application/grpc", "Te", "trailers")
		}},
	}
	for name, contentType := range map[string]string{
		"gRPC": "application/grpc", "gRPC in JSON": "application/grpc+json", "gRPC-Web": "application/grpc-web", "gRPC-Web in JSON": "application/grpc-web+json",
		"Connect": "application/proto", "Connect in JSON": "application/json",
	} {
		ways = append(ways, taintWay{"typed, " + name, func(t *testing.T, g *taintRig, tool string) string {
			method := map[string]string{"shop.get": "Get", "shop.slow": "Slow", "shop.list": "List", "shop.feed": "Feed", "shop.import": "Import", "shop.chat": "Chat"}[tool]
			body, of := string(wireText(nil, 1, "1")), contentType
			if strings.HasSuffix(contentType, "json") {
				body = `{"id":"1"}`
			}
			client := g.one
			switch streams := method == "Feed" || method == "Chat"; {
			case strings.HasPrefix(contentType, "application/grpc"):
				body = framed([]byte(body))
				if !strings.Contains(contentType, "web") {
					client = g.two
				}
			case streams:
				body, of = framed([]byte(body)), strings.Replace(contentType, "application/", "application/connect+", 1)
			}
			if method == "Chat" {
				client = g.two
			}
			return g.post(t, client, "/shop.v1.Shop/"+method, body, "Content-Type", of, "Te", "trailers")
		}})
	}
	return ways
}

// taintTools are the tools of each kind.
var taintTools = []string{"shop.get", "shop.list", "shop.feed", "shop.chat", "shop.slow", "shop.import"}

// otherWays are those that are no single call.
func otherWays() []taintWay {
	return []taintWay{
		{"task", func(t *testing.T, g *taintRig, _ string) string {
			const tasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
			out := g.modern(t, "tools/call", "shop_slow", `"name":"shop_slow","arguments":{"id":"1"}`, tasks, eitherForm)
			id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(out)
			if id == nil {
				t.Errorf("no task: %s", out)
				return out
			}
			testkit.Until(t, "the task ends", func() bool {
				out = g.modern(t, "tasks/get", id[1], `"taskId":"`+id[1]+`"`, tasks, eitherForm)
				return strings.Contains(out, `"completed"`) || strings.Contains(out, `"failed"`)
			})
			return out
		}},
		{"resource", func(t *testing.T, g *taintRig, _ string) string {
			return g.modern(t, "resources/read", "shop://customers/1", `"uri":"shop://customers/1"`, "{}", eitherForm)
		}},
		{"watch", func(t *testing.T, g *taintRig, _ string) string {
			const uri = "outrigger://watches/shop.feed?id=1"
			return g.modern(t, "resources/read", uri, `"uri":"`+uri+`"`, "{}", eitherForm)
		}},
		{"held", func(t *testing.T, g *taintRig, _ string) string {
			out := g.modern(t, "tools/call", "shop_list", `"name":"shop_list","arguments":{"id":"1"}`, "{}", eitherForm)
			uri := regexp.MustCompile(`outrigger://results/[A-Za-z0-9._~-]+`).FindString(out)
			if uri == "" {
				if mode := g.backend.mode.Load(); mode == "ok" && g.otherwise != "deny" && !strings.Contains(out, "RESOURCE_EXHAUSTED") {
					t.Errorf("nothing is held: %.1000s", out)
				}
				return out
			}
			return out + g.modern(t, "resources/read", uri, `"uri":"`+uri+`"`, "{}", eitherForm)
		}},
		{"resource list", func(t *testing.T, g *taintRig, _ string) string {
			return g.modern(t, "resources/list", "", "", "{}", eitherForm)
		}},
		{"fields", func(t *testing.T, g *taintRig, _ string) string {
			return g.post(t, g.one, "/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"shop.get","arguments":{"id":"1"},"_meta":{"dev.outrigger/fields":"name,extra"}}}`)
		}},
	}
}

// leak is a form in which a text is in another one; empty where it is not.
func leak(in, text string) string {
	forms := map[string]string{"raw": text, "hex": hex.EncodeToString([]byte(text)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(text)))}
	var percent strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&percent, "%%%02X", c)
	}
	forms["percent"] = percent.String()
	for offset := range 3 {
		for name, of := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			whole := of.EncodeToString(append(make([]byte, offset), text...))
			from := []int{0, 2, 3}[offset]
			to := len(whole) - []int{0, 3, 2}[(offset+len(text))%3]
			forms[fmt.Sprint(name, offset)] = whole[from:to]
		}
	}
	for name, form := range forms {
		if strings.Contains(in, form) {
			return name
		}
	}
	return ""
}

// What leaks is found in every encoding.
func TestLeaksAreFound(t *testing.T) {
	t.Parallel()
	for prefix := range 4 {
		value := append(bytes.Repeat([]byte{'x'}, prefix), taint+"yz"...)
		for _, text := range []string{
			string(value), hex.EncodeToString(value), base64.StdEncoding.EncodeToString(value), base64.URLEncoding.EncodeToString(value), base64.RawStdEncoding.EncodeToString(value),
		} {
			if leak(text, taint) == "" {
				t.Errorf("not found in %s", text)
			}
		}
	}
	if leak("nothing", taint) != "" {
		t.Error("found in nothing")
	}
}

// kept is all that the sidecar has written down.
func (g *taintRig) kept(t *testing.T) string {
	t.Helper()
	g.rig.End()
	var out strings.Builder
	for _, line := range g.logged.All() {
		fmt.Fprintln(&out, line.Message, line.ContextMap())
	}
	err := filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		out.WriteString(path)
		out.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// each runs every way with every tool in a mode.
func (g *taintRig) each(t *testing.T, mode string, visit func(name, out string)) {
	t.Helper()
	g.backend.mode.Store(mode)
	for _, w := range taintWays() {
		for _, tool := range taintTools {
			visit(strings.Join([]string{mode, w.name, tool}, ", "), w.run(t, g, tool))
		}
	}
	for _, w := range otherWays() {
		visit(mode+", "+w.name, w.run(t, g, ""))
	}
}

var taintModes = []string{"ok", "error", "break", "invalid"}

// TestNoTaintLeaves: on no edge, in no form and on no error path does a value of a class leave that the caller does not see, and none
// is in records and in the audit trail. Values without a class do leave.
func TestNoTaintLeaves(t *testing.T) {
	t.Parallel()
	for name, marks := range map[string]string{
		"hide": byPolicy, "mask": byPolicy, "hash": byPolicy, "deny": byPolicy, "hide ": byOption, "mask  ": byOverlay,
	} {
		otherwise := strings.TrimSpace(name)
		t.Run(otherwise+", "+marks, func(t *testing.T) {
			t.Parallel()
			g := newMarkedRig(t, marks, otherwise, nil, nil)
			for _, mode := range taintModes {
				g.each(t, mode, func(name, out string) {
					if form := leak(out, taint); form != "" {
						t.Errorf("%s: the taint leaves (%s): %.2000s", name, form, out)
					}
					isPlain := leak(out, plainText) != ""
					if isPlain && otherwise == "deny" && mode == "ok" {
						t.Errorf("%s: a result that is denied leaves: %.1000s", name, out)
					}
					if !isPlain && otherwise != "deny" && mode == "ok" && !strings.Contains(name, "held") {
						t.Errorf("%s: nothing leaves: %.1000s", name, out)
					}
				})
			}
			if form := leak(g.kept(t), taint); form != "" {
				t.Errorf("the taint is kept (%s)", form)
			}
		})
	}
}

// TestTheTaintIsThere: without a policy it leaves by every way, so that the test above looks at what it means to.
func TestTheTaintIsThere(t *testing.T) {
	t.Parallel()
	g := newTaintRig(t, "", nil)
	for _, mode := range []string{"ok", "error"} {
		g.each(t, mode, func(name, out string) {
			if leak(out, taint) == "" {
				t.Errorf("%s: the taint is not there: %.1000s", name, out)
			}
		})
	}
	if leak(g.kept(t), taint) == "" {
		t.Error("nothing is kept")
	}
}

// What is too large to leave is named by its size.
func TestNoTaintLeavesOverABound(t *testing.T) {
	t.Parallel()
	g := newMarkedRig(t, byOption, "mask", nil, resultBytes(64))
	refused := 0
	for _, mode := range taintModes {
		g.each(t, mode, func(name, out string) {
			if form := leak(out, taint); form != "" {
				t.Errorf("%s: the taint leaves (%s): %.2000s", name, form, out)
			}
			if strings.Contains(strings.ToLower(out), "resource_exhausted") {
				refused++
			}
		})
	}
	if refused == 0 {
		t.Error("nothing is too large")
	}
	if form := leak(g.kept(t), taint); form != "" {
		t.Errorf("the taint is kept (%s)", form)
	}
}

// TestEachPlaceIsNeeded: with each place where answers come in taken out, a taint leaves.
func TestEachPlaceIsNeeded(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"(*sender).callRPC", "(*streamer).invoke", "(*exchange).open", "(*Host).ReadPart", "(*operations).invokeOperation",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			rules := &mcptest.Blind{At: at}
			g := newTaintRig(t, "hide", func(r mcptest.Rules) mcptest.Rules {
				rules.Rules = r
				return rules
			})
			leaks, inHeaders := 0, 0
			g.each(t, "ok", func(_, out string) {
				if leak(out, taint) != "" {
					leaks++
				}
				if strings.Contains(out, "X-Shop-Note: "+taint) {
					inHeaders++
				}
			})
			if at == "(*sender).callRPC" && inHeaders == 0 {
				t.Error("no metadata leaks")
			}
			if leaks == 0 || rules.Uses() == 0 {
				t.Errorf("%d of %d uses leak", leaks, rules.Uses())
			}
		})
	}
}
