// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// declaring returns a bridge over the demo's tools and desk.repeat, which is
// lab.echo with schemas of its own.
func declaring(t testing.TB, call mcptest.Upstream, o bridge.Options) *dialect.Handler {
	t.Helper()
	live := mcptest.Memory(t)
	_, _, err := live.Register(context.Background(), catalog.Registration{
		Name: "desk.repeat", Description: "Says a word again.", Binding: catalog.Binding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":5},"signed":{"maximum":7}},"required":["nonce"]}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"nonce":{"const":"hello"}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return dialect.New(bridge.New(live, call, correlate.New(correlate.Options{}), o), dialect.Options{})
}

func TestDeclaredSchemasHold(t *testing.T) {
	t.Parallel()
	broken := errmap.New(errmap.ToolExecutionFailed, errmap.Message("the backend's own words"))
	for name, tt := range map[string]struct {
		arguments, answer string // answer: the nonce that the backend sends; "!" fails
		code              errmap.Code
		errorType         string
		path              string
	}{
		"all is well":             {`{"nonce":"hello"}`, "hello", "", "", ""},
		"a value out of range":    {`{"nonce":"hello","signed":8}`, "hello", errmap.InvalidToolInput, errmap.TypeValidation, "/signed"},
		"a member is missing":     {`{}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/nonce"},
		"both":                    {`{"signed":8}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/signed"},
		"only the RPC refuses":    {`{"nonce":"a","unknown":1}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/unknown"},
		"a name twice":            {`{"nonce":"a","nonce":"a"}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/nonce"},
		"the result is wrong":     {`{"nonce":"hello"}`, "other", errmap.InvalidToolOutput, "", "/nonce"},
		"the backend fails first": {`{"nonce":"hello"}`, "!", errmap.ToolExecutionFailed, "", ""},
	} {
		calls := 0
		b := declaring(t, func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
			calls++
			if tt.answer == "!" {
				failed := *broken
				return nil, &failed
			}
			body, err := proto.Marshal(&demov1.EchoResponse{Nonce: tt.answer})
			if err != nil {
				t.Error(err)
			}
			return &bridge.Answer{Body: body}, nil
		}, bridge.Options{})
		for _, tool := range []string{"desk.repeat", "desk_repeat"} {
			calls = 0
			resp := b.Handle(t.Context(), toolCall(b, tool, tt.arguments))
			if tt.code == "" {
				if resp.Err != nil || !strings.Contains(string(resp.Result.Bytes), `"nonce":"hello"`) {
					t.Errorf("%s: %v, %s", name, resp.Err, resp.Result.Bytes)
				}
				continue
			}
			if resp.Err == nil || resp.Err.Code != tt.code || resp.Result.Bytes != nil {
				t.Fatalf("%s: error %v, result %s", name, resp.Err, resp.Result.Bytes)
			}
			if tt.errorType != "" && resp.Err.ErrorType != tt.errorType {
				t.Errorf("%s: error type %s, want %s", name, resp.Err.ErrorType, tt.errorType)
			}
			if wasCalled := calls > 0; wasCalled == (tt.code == errmap.InvalidToolInput) {
				t.Errorf("%s: the backend was called %d times", name, calls)
			}
			if tt.path != "" && (len(resp.Err.Violations) == 0 || !hasPath(resp.Err.Violations, tt.path)) {
				t.Errorf("%s: violations %v do not name %s", name, resp.Err.Violations, tt.path)
			}
			if tt.answer == "!" && resp.Err.Message != broken.Message {
				t.Errorf("%s: the backend's error became %v", name, resp.Err)
			}
		}
		// The RPC's own tool knows nothing of the declared schemas.
		if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"signed":8}`)); tt.answer != "!" && resp.Err != nil {
			t.Errorf("%s: lab.echo: %v", name, resp.Err)
		}
	}
}

func hasPath(violations []errmap.Violation, path string) bool {
	for _, v := range violations {
		if v.Path == path {
			return true
		}
	}
	return false
}

// BenchmarkListOf1000AfterAChange renders the listing of 1,000 tools from
// nothing, which happens once a change; the contract gives it 5 ms.
func BenchmarkListOf1000AfterAChange(b *testing.B) {
	live := mcptest.Memory(b)
	for i := len(live.Current().Tools()); i < 1000; i++ {
		_, _, err := live.Register(context.Background(), catalog.Registration{
			Name: fmt.Sprintf("desk.repeat_%d", i), Description: "Says a word again.",
			Binding:     catalog.Binding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":5}},"required":["nonce"]}`),
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	const list = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`
	for _, state := range []string{"cold", "warm"} {
		b.Run(state, func(b *testing.B) {
			sidecar := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
			origin := sidecar.Flights().NewOrigin()
			b.ReportAllocs()
			for b.Loop() {
				if state == "cold" {
					sidecar = dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
					origin = sidecar.Flights().NewOrigin()
				}
				reply := sidecar.HandleMessage(context.Background(), inbound(b, origin, dialect.Canonical, list))
				if reply.Status != http.StatusOK || len(reply.Bytes()) < 100_000 {
					b.Fatal(reply.Status)
				}
			}
		})
	}
}
