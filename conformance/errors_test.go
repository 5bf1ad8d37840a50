// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
)

// backendCodes are the codes of gRPC in the spelling of the canonical error.
func backendCodes() []string {
	return []string{
		"unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
		"resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal",
		"unavailable", "data_loss", "unauthenticated",
	}
}

// TestBackendErrorsKeepTheirDetails fails with every code behind every edge.
// Whatever the edge, the caller learns the backend's code, its message and its
// three details.
func TestBackendErrorsKeepTheirDetails(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	args := []string{"--backend", lab.URL, "--metadata-out", "x-lab-*"}
	server := serve(t, args...)
	for _, edge := range caller.Edges() {
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, args...))
			defer agent.Close()
			codes := backendCodes()
			calls := make([]caller.Call, len(codes))
			for i, code := range codes {
				calls[i] = caller.Call{
					ID: fmt.Sprintf("%q", code), Tool: toolFail, Procedure: procFail,
					Args: fmt.Sprintf(`{"code":"FAIL_CODE_%s"}`, strings.ToUpper(code)),
				}
			}
			for i, answer := range agent.CallAll(t.Context(), calls) {
				checkBackendError(t, codes[i], answer)
			}
		})
	}
}

func checkBackendError(t *testing.T, code string, got caller.Answer) {
	t.Helper()
	switch {
	case got.Err != nil:
		t.Errorf("%s: %v", code, got.Err)
		return
	case got.Fault == nil:
		t.Errorf("%s: a success: %s", code, got.Data)
		return
	case got.Fault.Code != "TOOL_EXECUTION_FAILED":
		t.Errorf("%s: canonical code %s", code, got.Fault.Code)
	case !strings.Contains(got.Fault.Message, peer.FailMessage):
		t.Errorf("%s: message %q", code, got.Fault.Message)
	}
	if got.Fault.RPC != "" {
		checkRPCDetails(t, code, got)
		return
	}
	var data struct {
		BackendCode string
		Details     []map[string]any
	}
	if err := json.Unmarshal(got.Fault.Data, &data); err != nil {
		t.Errorf("%s: data: %v", code, err)
	}
	if data.BackendCode != code {
		t.Errorf("%s: backendCode is %q", code, data.BackendCode)
	}
	kinds := map[string]map[string]any{}
	for _, d := range data.Details {
		kind, _ := d["@type"].(string)
		kinds[kind[strings.LastIndex(kind, ".")+1:]] = d
	}
	if len(data.Details) != 3 || kinds["ErrorInfo"]["reason"] != peer.FailReason || kinds["RetryInfo"]["retryDelay"] != "1.500s" || kinds["BadRequest"] == nil {
		t.Errorf("%s: details are %v", code, data.Details)
	}
}

// checkRPCDetails holds for edges that have error details of their own: the
// code is the backend's, its details stand beside the canonical ones, and its
// metadata passes.
func checkRPCDetails(t *testing.T, code string, got caller.Answer) {
	t.Helper()
	if got.Fault.RPC != code {
		t.Errorf("%s: the RPC's code is %s", code, got.Fault.RPC)
	}
	var theirs, requests, retries int
	for _, d := range got.Fault.Details {
		info := &errdetails.ErrorInfo{}
		switch {
		case d.MessageIs(info) && d.UnmarshalTo(info) == nil && info.GetDomain() == peer.FailDomain:
			if info.GetReason() != peer.FailReason || info.GetMetadata()["shelf"] != "7" {
				t.Errorf("%s: %v", code, info)
			}
			theirs++
		case d.MessageIs(&errdetails.BadRequest{}):
			requests++
		case d.MessageIs(&errdetails.RetryInfo{}):
			retries++
		}
	}
	if theirs != 1 || requests != 1 || retries != 1 {
		t.Errorf("%s: the backend's details came %d, %d and %d times: %v", code, theirs, requests, retries, got.Fault.Details)
	}
	if got.Trailer.Get(peer.FailTrailer) != "after" {
		t.Errorf("%s: trailer %v lacks %s", code, got.Trailer, peer.FailTrailer)
	}
}

// TestMetadataCrossesOnlyWhereAllowed asks for metadata that is on the list and
// for metadata that is not. Typed callers get all trailers of the service, as without a sidecar.
func TestMetadataCrossesOnlyWhereAllowed(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo", "--metadata-out", "x-open-*")
	const ask = `{"reply_headers":{"x-open-head":"1","x-shut-head":"2"},"reply_trailers":{"x-open-tail":"3","x-shut-tail":"4"}}`
	for _, name := range []string{
		"tool-connect", "tool-grpc", "tool-grpcweb", "tool-grpc-go", "typed-connect", "typed-grpc", "typed-grpcweb", "typed-grpc-go",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := caller.Find(t, name).Dial(t, target(server))
			defer agent.Close()
			got := caller.One(t.Context(), agent, caller.Call{Tool: toolInspect, Procedure: procInspect, Args: ask})
			if got.Err != nil || got.Fault != nil {
				t.Fatalf("%v; %v", got.Err, got.Fault)
			}
			if got.Header.Get("x-open-head") != "1" || got.Trailer.Get("x-open-tail") != "3" {
				t.Errorf("allowed metadata is missing: header %v, trailer %v", got.Header, got.Trailer)
			}
			if isTyped := strings.HasPrefix(name, "typed-"); got.Header.Get("x-shut-head") != "" || (got.Trailer.Get("x-shut-tail") != "") != isTyped {
				t.Errorf("metadata crossed that may not, or trailers are missing: header %v, trailer %v", got.Header, got.Trailer)
			}
		})
	}
}
