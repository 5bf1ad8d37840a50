// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// Native is a backend that speaks the tool API and does what its tables say.
// What has no table is not offered. Set the tables before [Native.Start]; the
// methods are safe for concurrent use.
//
// What a caller of it sends is held against the rules of the contract, as a
// backend with a validating interceptor would.
type Native struct {
	outriggerv1connect.UnimplementedToolServiceHandler

	// Description is what it says about itself. Nil: a name, a version, and the
	// capabilities that the tables call for, all changes announced.
	Description *outriggerv1.ServerDescription
	Tools       []NativeTool
	Resources   []NativeResource
	Templates   []*outriggerv1.ResourceTemplate
	Prompts     []NativePrompt
	// Skills are the entries of skills, Directories what is in each directory, by its URI.
	Skills      []*outriggerv1.Skill
	Directories map[string][]*outriggerv1.Resource
	// Completions are the proposals by what they are for: "prompt NAME ARGUMENT"
	// or "resource URI ARGUMENT".
	Completions map[string]*outriggerv1.CompleteResponse
	// Tasks are the states of each task, by its id.
	Tasks map[string][]*outriggerv1.Task
	// PageSize bounds the pages of lists other than that of tools; zero does not.
	PageSize int
	// ListCache is what it says about lists other than that of tools.
	ListCache *outriggerv1.CachePolicy
	// NoStream leaves CallToolStream unimplemented.
	NoStream bool

	validate protovalidate.Validator
	server   *httptest.Server

	mu    sync.Mutex
	tools []NativeTool // those of now
	seen  []proto.Message
	at    map[string]int // states of tasks
	subs  []*subscriber
	moved chan struct{} // closed when a subscriber comes
}

// Start serves it on loopback until the end of the test, and returns its URL.
func (n *Native) Start(t testing.TB) string {
	t.Helper()
	return n.start(t, http.NotFoundHandler())
}

// startBesideDemo serves it together with the demo service, as one backend.
func (n *Native) startBesideDemo(t testing.TB, log *zap.Logger) string {
	t.Helper()
	others, err := demo.Handler(demo.Options{Logger: log})
	if err != nil {
		t.Fatalf("demo service: %v", err)
	}
	return n.start(t, others)
}

func (n *Native) start(t testing.TB, others http.Handler) string {
	t.Helper()
	validate, err := validator()
	if err != nil {
		t.Fatal(err)
	}
	n.validate, n.tools = validate, n.Tools
	n.at, n.moved = map[string]int{}, make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle(outriggerv1connect.NewToolServiceHandler(n))
	mux.Handle("/", others)
	n.server = httptest.NewUnstartedServer(mux)
	n.server.Config.Protocols = protocols(true)
	n.server.Config.ErrorLog = zap.NewStdLog(zap.NewNop()) // tests let it panic
	n.server.Start()
	t.Cleanup(n.server.Close)
	return n.server.URL
}

// validator is built on first use and shared, because it takes a while.
var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// Cut cuts all connections, in mid-call where there is one.
func (n *Native) Cut() { n.server.CloseClientConnections() }

// Stop ends it before the test does.
func (n *Native) Stop() {
	n.Cut()
	n.server.Close()
}

// Seen returns the requests so far, in the order in which they came, without
// those for descriptions, lists and changes.
func (n *Native) Seen() []proto.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

// SetTools replaces the tools. It announces nothing.
func (n *Native) SetTools(tools []NativeTool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tools = tools
}

func (n *Native) currentTools() []NativeTool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tools
}

// check refuses what breaks the contract, and takes note of the rest.
func (n *Native) check(in proto.Message, note bool) error {
	if err := n.validate.Validate(in); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	if note {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.seen = append(n.seen, proto.Clone(in))
	}
	return nil
}

// notFound is the contract's word for what does not exist.
func notFound(kind, name string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no %s %q", kind, name))
}

// Describe implements the contract.
func (n *Native) Describe(_ context.Context, req *connect.Request[outriggerv1.DescribeRequest]) (*connect.Response[outriggerv1.ServerDescription], error) {
	if err := n.check(req.Msg, false); err != nil {
		return nil, err
	}
	if n.Description != nil {
		return connect.NewResponse(n.Description), nil
	}
	return connect.NewResponse(n.described()), nil
}

// described is the description that the tables call for.
func (n *Native) described() *outriggerv1.ServerDescription {
	offers := &outriggerv1.ServerCapabilities{
		Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
		Completions: n.Completions != nil,
		Logging:     true,
		Tasks:       n.Tasks != nil,
	}
	if n.Resources != nil {
		offers.Resources = &outriggerv1.ResourcesCapability{Subscribe: true, ListChanged: true}
	}
	if n.Skills != nil {
		offers.Skills = &outriggerv1.SkillsCapability{DirectoryRead: n.Directories != nil}
	}
	if n.Prompts != nil {
		offers.Prompts = &outriggerv1.PromptsCapability{ListChanged: true}
	}
	return &outriggerv1.ServerDescription{Name: "desk", Version: "0.0.0-test", ContractVersion: "1.0.0", Capabilities: offers}
}

// page cuts a list: a cursor is the number of the first entry.
func page[T any](all []T, cursor *string, wanted int32, most int) ([]T, *string, error) {
	from := 0
	if cursor != nil {
		if _, err := fmt.Sscanf(*cursor, "at-%d", &from); err != nil || from > len(all) {
			return nil, nil, connect.NewError(connect.CodeInvalidArgument, errors.New("there is no such cursor"))
		}
	}
	size := len(all) - from
	if most > 0 {
		size = min(size, most)
	}
	if wanted > 0 {
		size = min(size, int(wanted))
	}
	to := from + size
	if to == len(all) {
		return all[from:], nil, nil
	}
	next := fmt.Sprintf("at-%d", to)
	return all[from:to], &next, nil
}
