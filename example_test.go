// SPDX-License-Identifier: Apache-2.0

package outrigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
)

// lab is a service of the program itself.
type lab struct {
	demov1connect.UnimplementedLabHandler
}

// Echo answers with what it was sent.
func (lab) Echo(_ context.Context, in *connect.Request[demov1.EchoRequest]) (*connect.Response[demov1.EchoResponse], error) {
	return connect.NewResponse(&demov1.EchoResponse{Nonce: in.Msg.GetNonce()}), nil
}

// service is the program's own RPC server.
func service() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewLabHandler(lab{}))
	return mux
}

// run runs a sidecar until the returned function is called, which drains it.
func run(s *outrigger.Sidecar) (stop func()) {
	go func() {
		if err := s.Run(context.Background()); err != nil {
			log.Print(err)
		}
	}()
	if err := s.Ready(context.Background()); err != nil {
		log.Fatal(err)
	}
	return func() { _ = s.Drain(context.Background()) }
}

// post sends one JSON-RPC request, and returns the status and a part of the answer.
func post(url, token, body string) (status, text string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err.Error()
	}
	return res.Status, string(raw)
}

const echo = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"hello"}}}`

// A server that exists already serves agents beside its own pages.
func Example() {
	ctx := context.Background()
	sidecar, err := outrigger.New(ctx, outrigger.Options{
		Handler: service(),
		Sources: []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run(sidecar)()

	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "my own page") })
	mux.Handle("/", sidecar.Handler()) // /mcp, /rpc, gRPC and Connect
	server := httptest.NewServer(mux)
	defer server.Close()

	fmt.Println(post(server.URL+"/rpc", "", `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`))
	fmt.Println(post(server.URL+"/hello", "", ""))
	// Output:
	// 200 OK {"jsonrpc":"2.0","id":"1","result":{}}
	// 200 OK my own page
}

// The backend is a handler of the same process: no port is opened for it.
func ExampleNew_inProcess() {
	sidecar, err := outrigger.New(context.Background(), outrigger.Options{
		Handler: service(),
		Sources: []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")},
		Policy:  outrigger.Policy{Include: []string{"outrigger.demo.v1.Lab/Echo"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run(sidecar)()

	for _, tool := range sidecar.Tools() {
		fmt.Println(tool.Name, tool.MCPName, tool.Procedure)
	}
	// Output:
	// lab.echo lab_echo /outrigger.demo.v1.Lab/Echo
}

// Several tool services are behind one sidecar, as `backends` in the file of the command has them.
func ExampleNew_backends() {
	east, west := httptest.NewServer(service()), httptest.NewServer(service())
	defer east.Close()
	defer west.Close()
	descriptors := []string{"internal/demo/demo.binpb"}
	sidecar, err := outrigger.New(context.Background(), outrigger.Options{
		Config: &configv1.Config{
			Backends: []*configv1.Backend{
				{Name: "east", Url: "connect+" + east.URL, Descriptors: descriptors},
				{Name: "west", Url: "connect+" + west.URL, Descriptors: descriptors, Prefix: "west"},
			},
			ReadyBackends: []string{"all"},
		},
		Policy: outrigger.Policy{Include: []string{"outrigger.demo.v1.Lab/Echo"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run(sidecar)()

	for _, tool := range sidecar.Tools() {
		result, err := sidecar.CallTool(context.Background(), tool.Name, json.RawMessage(`{"nonce":"hello"}`))
		fmt.Println(tool.Name, string(result), err)
	}
	// Output:
	// lab.echo {"nonce":"hello","signed":"0","unsigned":"0","payload":""} <nil>
	// west.lab.echo {"nonce":"hello","signed":"0","unsigned":"0","payload":""} <nil>
}

// registry is a source of descriptors, such as a schema registry.
type registry struct{}

// Name implements [outrigger.Source].
func (registry) Name() string { return "schema registry" }

// Load implements [outrigger.Source].
func (registry) Load(context.Context) (*outrigger.Loaded, error) {
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING
	one := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	name, file, pkg, syntax, number := "text", "notes.proto", "notes.v1", "proto3", int32(1)
	note, notes, add, noteType := "Note", "Notes", "Add", ".notes.v1.Note"
	return &outrigger.Loaded{
		Source: "schema registry",
		Files: []*descriptorpb.FileDescriptorProto{{
			Name: &file, Package: &pkg, Syntax: &syntax,
			MessageType: []*descriptorpb.DescriptorProto{{
				Name: &note, Field: []*descriptorpb.FieldDescriptorProto{{Name: &name, Number: &number, Type: &text, Label: &one}},
			}},
			Service: []*descriptorpb.ServiceDescriptorProto{{
				Name: &notes, Method: []*descriptorpb.MethodDescriptorProto{{Name: &add, InputType: &noteType, OutputType: &noteType}},
			}},
		}},
	}, nil
}

// Descriptors can come from wherever the program gets them.
func ExampleSource() {
	sidecar, err := outrigger.New(context.Background(), outrigger.Options{
		Backend: "grpc://127.0.0.1:50051", // it is not asked for its descriptors
		Sources: []outrigger.Source{registry{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run(sidecar)()

	for _, tool := range sidecar.Tools() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			log.Print(err)
		}
		fmt.Println(tool.Name, len(schema.Properties), "argument")
	}
	// Output:
	// notes.add 1 argument
}

// The program decides who its callers are, such as by its own tokens.
func ExampleAuthenticatorFunc() {
	who := func(_ context.Context, shown outrigger.Credentials) (*outrigger.Identity, error) {
		if shown.Token != "a-token-of-my-own" {
			return nil, outrigger.Refuse(shown)
		}
		return outrigger.NewIdentity(outrigger.Grant{Name: "planner", Tools: []string{"lab.*"}}), nil
	}
	sidecar, err := outrigger.New(context.Background(), outrigger.Options{
		Handler:       service(),
		Sources:       []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")},
		Authenticator: outrigger.AuthenticatorFunc(who),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run(sidecar)()
	server := httptest.NewServer(sidecar.Handler())
	defer server.Close()

	status, _ := post(server.URL+"/rpc", "", echo)
	fmt.Println(status)
	status, _ = post(server.URL+"/rpc", "a-token-of-my-own", echo)
	fmt.Println(status)
	// Output:
	// 401 Unauthorized
	// 200 OK
}

// The program calls a tool itself. Errors have canonical codes.
func ExampleSidecar_CallTool() {
	ctx := context.Background()
	sidecar, err := outrigger.New(ctx, outrigger.Options{
		Handler: service(),
		Sources: []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run(sidecar)()

	data, err := sidecar.CallTool(ctx, "lab.echo", json.RawMessage(`{"nonce": "hello"}`))
	if err != nil {
		log.Print(err)
	}
	var answer struct{ Nonce string }
	if err := json.Unmarshal(data, &answer); err != nil {
		log.Print(err)
	}
	fmt.Println(answer.Nonce)

	_, err = sidecar.CallTool(ctx, "lab.echo", json.RawMessage(`{"nonce": 5}`))
	var failed *errmap.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Code)
	}
	// Output:
	// hello
	// INVALID_TOOL_INPUT
}
