// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/oddtest"
)

// rpcBody posts to /rpc and returns the answer.
func rpcBody(t *testing.T, p *process, tool, arguments string) string {
	t.Helper()
	return postedText(t, p.main+"/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
}

func postedText(t *testing.T, url, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// structured is the structured content of an answer, as it came.
func structured(t *testing.T, answer string) string {
	t.Helper()
	var out struct {
		Result struct {
			StructuredContent json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return string(out.Result.StructuredContent)
}

// What the answers of the odd backend hold, as JSON.
const (
	coinJSON     = `{"@type":"type.googleapis.com/odd.far.v1.Coin","face":"heads"}`
	treasureJSON = `{"@type":"type.googleapis.com/odd.far.v1.Treasure","name":"crown","weight":"9007199254740993","inside":` + coinJSON + `}`
	nowhereJSON  = `{"@type":"type.googleapis.com/odd.nowhere.v1.Thing","value":"CAc="}`
	chestJSON    = `{"@type":"type.googleapis.com/odd.far.v1.Treasure","name":"crown","weight":"9007199254740993","inside":` + nowhereJSON + `}`
	statusJSON   = `{"@type":"type.googleapis.com/google.rpc.Status","code":9,"message":"not now","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ODD","domain":"odd.test","metadata":{}},` + treasureJSON + `]}`
	reservedJSON = `{"@type":"type.googleapis.com/odd.v1.Reserved","reason":"already started","runId":"r-1","secret":""}`
)

// TestTypesThatOnlyAnswersName: an Any is decoded with the types of the catalog, those that are linked in, and those that
// the backend's reflection describes, else it is its bytes; nothing is lost, and every answer can be sent back. Each type
// is asked for once, also by many at once and where there is none; input asks for nothing.
func TestTypesThatOnlyAnswersName(t *testing.T) {
	t.Parallel()
	odd := oddtest.Start(t)
	p := startProcess(t, "serve", "--backend", odd.URL)
	before := odd.Asked("odd.far.v1.Treasure")
	if got := rpcBody(t, p, "odd.open", `{"content":{"@type":"type.googleapis.com/odd.far.v1.Treasure","name":"x"}}`); !strings.Contains(got, "unknown type") ||
		!strings.Contains(got, `"/content/@type"`) || odd.Asked("odd.far.v1.Treasure") != before {
		t.Errorf("input of a type that is not known, asked %d times: %s", odd.Asked("odd.far.v1.Treasure"), got)
	}
	kinds := map[string]string{
		oddtest.Status: statusJSON, oddtest.Reserved: strings.Replace(reservedJSON, `"secret":""`, `"secret":"s3cret"`, 1),
		oddtest.Treasure: treasureJSON, oddtest.Nowhere: nowhereJSON, oddtest.Chest: chestJSON,
	}
	var all sync.WaitGroup
	for kind, held := range kinds {
		for range 8 {
			all.Go(func() {
				want := `{"kind":"` + kind + `","content":` + held + `,"more":[` + held + `]}`
				if got := structured(t, rpcBody(t, p, "odd.open", `{"kind":"`+kind+`"}`)); got != want {
					t.Errorf("%s:\n got %s\nwant %s", kind, got, want)
				}
			})
		}
	}
	all.Wait()
	for kind, held := range kinds {
		sent := `{"kind":"","content":` + held + `,"more":[]}`
		if got := structured(t, rpcBody(t, p, "odd.open", sent)); got != sent {
			t.Errorf("%s came back as %s, want %s", kind, got, sent)
		}
	}
	for name, most := range map[protoreflect.FullName]int{"odd.far.v1.Treasure": 1, "odd.far.v1.Coin": 0, "odd.nowhere.v1.Thing": 1} {
		if n := odd.Asked(name); n != most {
			t.Errorf("the backend was asked %d times for %s, want %d", n, name, most)
		}
	}
	if page := getText(t, p.admin+"/metrics"); !strings.Contains(page, `outrigger_limit_used{limit="max_learned_types"} 2`) {
		t.Error("the types that were learned are not counted")
	}

	t.Run("within the limit", func(t *testing.T) {
		t.Parallel()
		p := startProcess(t, "serve", "--backend", odd.URL, "--max-learned-types", "1")
		want := strings.Replace(treasureJSON, coinJSON, `{"@type":"type.googleapis.com/odd.far.v1.Coin","value":"CgVoZWFkcw=="}`, 1)
		if got := structured(t, rpcBody(t, p, "odd.open", `{"kind":"treasure"}`)); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if page := getText(t, p.admin+"/metrics"); !strings.Contains(page, `outrigger_limit_refused_total{limit="max_learned_types"} 1`) {
			t.Error("the type that was one too many is not counted")
		}
	})
	t.Run("turned off", func(t *testing.T) {
		t.Parallel()
		p := startProcess(t, "serve", "--backend", odd.URL, "--max-learned-types", "0")
		if got := structured(t, rpcBody(t, p, "odd.open", `{"kind":"treasure"}`)); !strings.Contains(got, `"content":{"@type":"type.googleapis.com/odd.far.v1.Treasure","value":"`) {
			t.Errorf("got %s", got)
		}
	})
}

func getText(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// oddMessage is a message of the odd backend, for callers without generated code.
func oddMessage(t *testing.T, name protoreflect.FullName, text string) *dynamicpb.Message {
	t.Helper()
	d, err := oddtest.Files().FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestErrorDetailsOfTheBackendsOwnTypes: details are decoded like Anys in answers, with what is marked as secret left out,
// and a status above 16 keeps its number on every edge.
func TestErrorDetailsOfTheBackendsOwnTypes(t *testing.T) {
	t.Parallel()
	odd := oddtest.Start(t)
	p := startProcess(t, "serve", "--backend", odd.URL)
	const arguments = `{"status":2017,"kinds":["reserved","treasure","nowhere","status"]}`
	wants := []string{`"backendStatus":2017`, `"backendCode":"unknown"`, reservedJSON, treasureJSON, nowhereJSON, `"reason":"ODD"`}
	check := func(edge, got string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s lacks %s", edge, got, want)
			}
		}
		if strings.Contains(got, "s3cret") {
			t.Errorf("%s shows what is marked as secret: %s", edge, got)
		}
	}
	check("/rpc", rpcBody(t, p, "odd.fail", arguments))
	check("/mcp", postedText(t, p.main+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd_fail","arguments":`+arguments+
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "odd_fail"))

	request := oddMessage(t, "odd.v1.Failure", `status: 2017 kinds: "reserved" kinds: "treasure"`)
	conn, err := grpc.NewClient(strings.TrimPrefix(p.main, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Invoke(t.Context(), "/odd.v1.Odd/Fail", request, oddMessage(t, "odd.v1.Box", ""))
	// As the backend sent it: a typed caller knows what is in there.
	if s := status.Convert(err); s.Code() != 2017 || s.Message() != oddtest.Message || len(s.Proto().GetDetails()) != 2 {
		t.Errorf("typed gRPC: %d %q %v", s.Code(), s.Message(), s.Proto().GetDetails())
	}
	for name, option := range map[string]connect.ClientOption{"gRPC-Web": connect.WithGRPCWeb(), "Connect": connect.WithProtoJSON()} {
		client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](http.DefaultClient, p.main+"/odd.v1.Odd/Fail", option,
			connect.WithResponseInitializer(func(_ connect.Spec, m any) error {
				*m.(*dynamicpb.Message) = *oddMessage(t, "odd.v1.Box", "")
				return nil
			}))
		_, err := client.CallUnary(t.Context(), connect.NewRequest(request))
		want := connect.Code(2017)
		if name == "Connect" {
			want = connect.CodeUnknown
		}
		if connect.CodeOf(err) != want {
			t.Errorf("typed %s: %v", name, err)
		}
	}
	testConnectDetails(t, postedText(t, p.main+"/outrigger.v1.ToolService/CallTool", `{"tool_name":"odd.fail","arguments":`+arguments+`}`))
	testReflectedDetails(t, conn)
}

// testConnectDetails looks at the details of a Connect error: the backend's own ones stand beside the canonical ones, in
// binary, and the number is in both of those.
func testConnectDetails(t *testing.T, body string) {
	t.Helper()
	var out struct {
		Code    string `json:"code"`
		Details []struct {
			Type  string          `json:"type"`
			Debug json.RawMessage `json:"debug"`
		} `json:"details"`
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, d := range out.Details {
		types = append(types, d.Type)
	}
	if got := strings.Join(types, " "); got != "google.rpc.ErrorInfo outrigger.v1.ErrorDetail odd.v1.Reserved odd.far.v1.Treasure odd.nowhere.v1.Thing google.rpc.Status" {
		t.Errorf("details of %s", got)
	}
	var detail struct {
		JSON []byte `json:"error_details_json"`
	}
	if err := json.Unmarshal(out.Details[1].Debug, &detail); err != nil || !strings.Contains(string(detail.JSON), `"backendStatus":2017`) {
		t.Errorf("ErrorDetail: %s %v", detail.JSON, err)
	}
	if out.Code != "unknown" || !strings.Contains(string(out.Details[0].Debug), `"backendStatus":"2017"`) {
		t.Errorf("%s", body)
	}
}

// testReflectedDetails asks the sidecar's reflection for the types of the details, as grpcurl does to show them.
func testReflectedDetails(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"odd.v1.Reserved", "odd.far.v1.Treasure", "odd.far.v1.Coin", "google.rpc.ErrorInfo", "google.rpc.Status", "outrigger.v1.ErrorDetail"} {
		if err := stream.Send(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
		}); err != nil {
			t.Fatal(err)
		}
		reply, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		var file descriptorpb.FileDescriptorProto
		files := reply.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) == 0 || proto.Unmarshal(files[0], &file) != nil {
			t.Errorf("%s: %v", name, reply)
		}
	}
}
