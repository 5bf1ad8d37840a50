// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// failureShown is what a failure looked like to its caller.
type failureShown struct {
	status     int
	retryAfter string
	Code       errmap.Code `json:"code"`
	ErrorType  string      `json:"errorType"`
	Retryable  bool        `json:"retryable"`
}

// callRPC calls a tool at /rpc and returns how it failed.
func callRPC(t *testing.T, url, tool, arguments string) failureShown {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/rpc", strings.NewReader(
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Error *struct {
			Data failureShown `json:"data"`
		} `json:"error"`
		Result struct {
			Meta map[string]failureShown `json:"_meta"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	shown := reply.Result.Meta[errmap.MetaKey]
	if reply.Error != nil {
		shown = reply.Error.Data
	}
	shown.status, shown.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	return shown
}

// demoSidecar is a sidecar in front of the demo service; it returns its URL.
func demoSidecar(t *testing.T, configure func(*configv1.Config)) string {
	t.Helper()
	return mcptest.Start(t, mcptest.Options{Configure: configure}).Serve(t)
}

// sidecarOf is a sidecar in front of a backend that a handler is, spoken to over
// Connect.
func sidecarOf(t *testing.T, handler http.Handler) (url string, backendServer *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return mcptest.Pipe(t, mcptest.Parts{Behind: "connect+" + server.URL}).Serve(t), server
}

// noFile is an RPC that has lost a file.
func noFile(context.Context, *connect.Request[demov1.FailRequest]) (*connect.Response[demov1.FailResponse], error) {
	failed := connect.NewError(connect.CodeNotFound, errors.New("there is no tide table"))
	detail, err := connect.NewErrorDetail(&errdetails.ResourceInfo{ResourceType: "file", ResourceName: "tides.csv"})
	if err != nil {
		return nil, err
	}
	failed.AddDetail(detail)
	return nil, failed
}

// answersWith is a backend that answers every call with the bytes given.
func answersWith(contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	})
}

// TestEveryErrorTypeFromARealFailure holds the column errorType of the canonical
// table to what really happens: each type is the answer of a real listener to a
// failure that was brought about, not made up.
func TestEveryErrorTypeFromARealFailure(t *testing.T) {
	t.Parallel()
	open := demoSidecar(t, nil)
	failing := func(code string) func(t *testing.T) failureShown {
		return func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "lab.fail", `{"code":"FAIL_CODE_`+code+`"}`)
		}
	}
	tests := []struct {
		name      string
		errorType string
		code      errmap.Code
		status    int
		fail      func(t *testing.T) failureShown
	}{
		{"validation: a rule on values", errmap.TypeValidation, errmap.InvalidToolInput, 422, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "lab.sleep", `{"duration":"601s"}`)
		}},
		{"validation: the tool's own", errmap.TypeValidation, errmap.ToolExecutionFailed, 200, failing("INVALID_ARGUMENT")},
		{"schema: a type", errmap.TypeSchema, errmap.InvalidToolInput, 422, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "lab.echo", `{"nonce":7}`)
		}},
		{"schema: a member", errmap.TypeSchema, errmap.InvalidToolInput, 422, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "lab.echo", `{"nonsense":"x"}`)
		}},
		{"missing file", errmap.TypeFileNotFound, errmap.ToolExecutionFailed, 200, func(t *testing.T) failureShown {
			t.Helper()
			mux := http.NewServeMux()
			mux.Handle(demov1connect.LabFailProcedure, connect.NewUnaryHandler(demov1connect.LabFailProcedure, noFile))
			url, _ := sidecarOf(t, mux)
			return callRPC(t, url, "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`)
		}},
		{"missing resource", errmap.TypeResourceNotFound, errmap.ToolExecutionFailed, 200, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "fleet.get_order", `{"orderId":"987654"}`)
		}},
		{"authentication", errmap.TypeAuthentication, errmap.ToolExecutionFailed, 200, failing("UNAUTHENTICATED")},
		{"permission: the gate", errmap.TypePermission, errmap.DestructiveBlocked, 403, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "fleet.cancel_order", `{"orderId":"1"}`)
		}},
		{"permission: the tool's own", errmap.TypePermission, errmap.ToolExecutionFailed, 200, failing("PERMISSION_DENIED")},
		{"rate limit", errmap.TypeAPILimitExceeded, errmap.RateLimited, 429, func(t *testing.T) failureShown {
			t.Helper()
			url := demoSidecar(t, func(c *configv1.Config) { c.Limits.ToolRate = &configv1.Rate{PerSecond: 0.01} })
			callRPC(t, url, "lab.echo", `{}`)
			return callRPC(t, url, "lab.echo", `{}`)
		}},
		{"rate limit: the tool's own", errmap.TypeAPILimitExceeded, errmap.ToolExecutionFailed, 200, failing("RESOURCE_EXHAUSTED")},
		{"timeout", errmap.TypeTimeout, errmap.Timeout, 504, func(t *testing.T) failureShown {
			t.Helper()
			url := demoSidecar(t, func(c *configv1.Config) { c.Timeout = durationpb.New(100 * time.Millisecond) })
			return callRPC(t, url, "lab.sleep", `{"duration":"60s"}`)
		}},
		{"tool execution", errmap.TypeToolExecution, errmap.ToolExecutionFailed, 200, failing("INTERNAL")},
		{"transport: killed in the middle of a call", errmap.TypeTransport, errmap.TransportError, 502, func(t *testing.T) failureShown {
			t.Helper()
			entered := make(chan struct{})
			url, server := sidecarOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost { // the greeting that finds out which HTTP the server speaks
					http.NotFound(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				close(entered)
				<-r.Context().Done()
			}))
			go func() {
				<-entered
				server.CloseClientConnections()
			}()
			return callRPC(t, url, "fleet.place_order", `{"customer":"Ann","destination":{"stopId":"1"},"parcels":[{"contents":"a coconut","weightKg":1}]}`)
		}},
		{"transport: gone before the call", errmap.TypeTransport, errmap.Unavailable, 503, func(t *testing.T) failureShown {
			t.Helper()
			url, server := sidecarOf(t, http.NotFoundHandler())
			server.Close()
			return callRPC(t, url, "lab.echo", `{}`)
		}},
		{"serialisation: bytes that are no message", errmap.TypeSerialization, errmap.SerializationError, 500, func(t *testing.T) failureShown {
			t.Helper()
			url, _ := sidecarOf(t, answersWith("application/proto", "\x0a\xff\xff\xff\xff\x0fno message"))
			return callRPC(t, url, "lab.echo", `{}`)
		}},
		{"transport: a web page in place of the service", errmap.TypeTransport, errmap.TransportError, 502, func(t *testing.T) failureShown {
			t.Helper()
			url, _ := sidecarOf(t, answersWith("text/html", "<html>welcome</html>"))
			return callRPC(t, url, "lab.echo", `{}`)
		}},
		{"registration: no such RPC", errmap.TypeRegistration, errmap.RegistrationInvalid, 400, func(t *testing.T) failureShown {
			t.Helper()
			return register(t, registration("desk.look", "NoSuchMethod"))
		}},
		{"registration: another tool's name", errmap.TypeRegistration, errmap.RegistrationConflict, 409, func(t *testing.T) failureShown {
			t.Helper()
			return register(t, registration("lab.echo", "Echo"))
		}},
		{"tool not found", errmap.TypeToolNotFound, errmap.ToolNotFound, 404, func(t *testing.T) failureShown {
			t.Helper()
			return callRPC(t, open, "lab.ecco", `{}`)
		}},
	}
	missing := map[string]bool{
		errmap.TypeValidation: true, errmap.TypeSchema: true, errmap.TypeToolNotFound: true, errmap.TypeResourceNotFound: true,
		errmap.TypeFileNotFound: true, errmap.TypeAuthentication: true, errmap.TypePermission: true, errmap.TypeAPILimitExceeded: true,
		errmap.TypeTimeout: true, errmap.TypeToolExecution: true, errmap.TypeTransport: true, errmap.TypeSerialization: true,
		errmap.TypeRegistration: true,
	}
	for _, tc := range tests {
		delete(missing, tc.errorType)
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := tc.fail(t)
			if got.ErrorType != tc.errorType || got.Code != tc.code || got.status != tc.status {
				t.Errorf("got %+v, want %s, %s with %d", got, tc.errorType, tc.code, tc.status)
			}
			if wants := tc.code == errmap.RateLimited || tc.code == errmap.Unavailable; wants != (got.retryAfter != "") {
				t.Errorf("Retry-After: %q", got.retryAfter)
			}
		})
	}
	for errorType := range missing {
		t.Errorf("nothing brings about %s", errorType)
	}
}

func registration(name, method string) *outriggerv1.RegisterToolRequest {
	return &outriggerv1.RegisterToolRequest{
		Name: name, Description: "Look at it.",
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)},
		Binding:         &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: method},
	}
}

// register registers a tool on its own operators' listener.
func register(t *testing.T, req *outriggerv1.RegisterToolRequest) failureShown {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{})
	_, err := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 1), rig.Operators(t)).
		RegisterTool(context.Background(), connect.NewRequest(req))
	shown := failureShown{Code: codeOfRPC(t, err), ErrorType: detailOf(t, err).GetErrorType()}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		shown.status = http.StatusBadRequest
	case connect.CodeAlreadyExists:
		shown.status = http.StatusConflict
	}
	return shown
}

// detailOf is the canonical detail of an RPC's error.
func detailOf(t *testing.T, err error) *outriggerv1.ErrorDetail {
	t.Helper()
	var failed *connect.Error
	if !errors.As(err, &failed) {
		t.Fatalf("no RPC error: %v", err)
	}
	for _, d := range failed.Details() {
		if value, _ := d.Value(); value != nil {
			if detail, ok := value.(*outriggerv1.ErrorDetail); ok {
				return detail
			}
		}
	}
	t.Fatalf("no ErrorDetail: %v", err)
	return nil
}
