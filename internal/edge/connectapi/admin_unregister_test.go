// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

func unregister(t *testing.T, client outriggerv1connect.ToolServiceClient, name, version string) (*outriggerv1.UnregisterToolResponse, error) {
	t.Helper()
	resp, err := client.UnregisterTool(t.Context(), connect.NewRequest(&outriggerv1.UnregisterToolRequest{Name: name, Version: version}))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// TestEveryProtocolChangesAndTakesBack has each protocol change a tool by version and take it back, and callers see both.
func TestEveryProtocolChangesAndTakesBack(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	stream := watch(t, operatorWays()["gRPC"](t, s.main))
	nextStep(t, stream)
	for name, dial := range operatorWays() {
		operator, caller := dial(t, s.admin), dial(t, s.main)
		if _, err := operator.RegisterTool(t.Context(), connect.NewRequest(echoTool())); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantStep(t, nextStep(t, stream), seen{Added: []string{"desk.repeat"}})
		changed, err := operator.RegisterTool(t.Context(), connect.NewRequest(echoTool(func(r *outriggerv1.RegisterToolRequest) {
			r.Version, r.InputSchemaForm = "1.1.0", &outriggerv1.RegisterToolRequest_InputSchemaJson{
				InputSchemaJson: []byte(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":9}}}`)}
		})))
		if err != nil || changed.Msg.GetCreated() || changed.Msg.GetReplacedVersion() != "1.0.0" || changed.Msg.GetTool().GetVersion() != "1.1.0" {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
		wantStep(t, nextStep(t, stream), seen{Changed: []string{"desk.repeat"}})
		call := connect.NewRequest(&outriggerv1.ToolCall{
			ToolName: "desk.repeat", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"longer"}`)},
		})
		outcome, err := caller.CallTool(t.Context(), call)
		if err != nil || !strings.Contains(string(outcome.Msg.GetResult().GetDataJson()), `"longer"`) {
			t.Errorf("%s: a call by the new schema: %v, %v", name, outcome, err)
		}
		if _, err := unregister(t, caller, "desk.repeat", ""); connect.CodeOf(err) != connect.CodeUnimplemented ||
			!strings.Contains(err.Error(), "on the admin listener only") {
			t.Errorf("%s: the main listener says %v", name, err)
		}
		gone, err := unregister(t, operator, "desk.repeat", "1.1.0")
		if err != nil || gone.GetName() != "desk.repeat" || gone.GetVersion() != "1.1.0" {
			t.Fatalf("%s: %v, %v", name, gone, err)
		}
		wantStep(t, nextStep(t, stream), seen{Removed: []string{"desk.repeat"}})
		_, err = caller.CallTool(t.Context(), call)
		if code, _ := whyRefused(t, err); code != errmap.ToolNotFound {
			t.Errorf("%s: a call afterwards: %v", name, err)
		}
	}
	ways := len(operatorWays())
	for _, message := range []string{"tool registered", "tool unregistered"} {
		lines := s.log.FilterMessage(message).All()
		if want := map[string]int{"tool registered": 2 * ways, "tool unregistered": ways}[message]; len(lines) != want {
			t.Errorf("%d lines of %q, want %d", len(lines), message, want)
		}
		for _, line := range lines {
			if fields := line.ContextMap(); fields["outrigger.tool.name"] != "desk.repeat" || fields["outrigger.caller"] == nil || fields["version"] == "" {
				t.Errorf("line %v", fields)
			}
		}
	}
}

func TestRefusedUnregistrationsAreCanonicalErrors(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	if _, err := s.register(t, echoTool()); err != nil {
		t.Fatal(err)
	}
	before := s.live.Current()
	client := operatorWays()["Connect, JSON"](t, s.admin)
	for name, tt := range map[string]struct {
		tool, version string
		want          connect.Code
		code          errmap.Code
		message       string
		paths         []string
	}{
		"an unknown name": {"desk.repeet", "", connect.CodeNotFound, errmap.ToolNotFound, "Unknown tool: desk.repeet", []string{"name"}},
		"a tool of the backend": {"lab.echo", "", connect.CodeInvalidArgument, errmap.RegistrationInvalid,
			"it is not a registered tool: it comes from outrigger.demo.v1.Lab/Echo", []string{"name"}},
		"another version": {"desk.repeat", "1.0.1", connect.CodeAlreadyExists, errmap.RegistrationConflict,
			"version 1.0.0 is registered, not 1.0.1", []string{"version"}},
		"no name":         {"", "", connect.CodeInvalidArgument, errmap.InvalidParams, "", []string{"name"}},
		"too long a name": {strings.Repeat("x", 129), "", connect.CodeInvalidArgument, errmap.InvalidParams, "", []string{"name"}},
	} {
		_, err := unregister(t, client, tt.tool, tt.version)
		code, paths := whyRefused(t, err)
		if diff := cmp.Diff(tt.paths, paths); diff != "" || connect.CodeOf(err) != tt.want || code != tt.code || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %s: %v\n%s", name, code, err, diff)
		}
	}
	if lines := s.log.FilterMessage("unregistration refused").All(); len(lines) != 5 || s.live.Current() != before {
		t.Errorf("%d lines of audit", len(lines))
	}
}

// held is a backend that answers when it is asked to.
type held struct {
	bridge.Upstream
	arrived, release chan struct{}
}

func (h *held) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	h.arrived <- struct{}{}
	<-h.release
	return h.Upstream.Call(ctx, m, in, header)
}

// TestCallsInFlightOutliveTheirTool changes the tool of a call in flight, and takes it back.
func TestCallsInFlightOutliveTheirTool(t *testing.T) {
	t.Parallel()
	h := &held{arrived: make(chan struct{}), release: make(chan struct{})}
	s := openStation(t, mcptest.Options{Adjust: server.Adjust{Backend: func(c bridge.Upstream, own bridge.Native) (bridge.Upstream, bridge.Native) {
		h.Upstream = c
		return h, own
	}}})
	way := operatorWays()["gRPC"]
	caller := way(t, s.main)
	ended := make(chan error, 2)
	call := func() {
		outcome, err := caller.CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
			ToolName: "desk.repeat", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"word"}`)},
		}))
		if err == nil && !strings.Contains(string(outcome.Msg.GetResult().GetDataJson()), `"word"`) {
			t.Errorf("outcome %v", outcome)
		}
		ended <- err
	}
	if _, err := s.register(t, echoTool()); err != nil {
		t.Fatal(err)
	}
	go call()
	<-h.arrived
	if _, err := s.register(t, echoTool(func(r *outriggerv1.RegisterToolRequest) { r.Version = "2.0.0" })); err != nil {
		t.Fatal(err)
	}
	go call()
	<-h.arrived
	if _, err := unregister(t, way(t, s.admin), "desk.repeat", ""); err != nil {
		t.Fatal(err)
	}
	close(h.release)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
