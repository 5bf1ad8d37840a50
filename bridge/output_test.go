// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// altering stands between the bridge and the real backend and replaces what
// comes back.
func altering(body []byte) func(bridge.Upstream) bridge.Upstream {
	return func(next bridge.Upstream) bridge.Upstream {
		return mcptest.Upstream(func(ctx context.Context, m *catalog.Method, in []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
			answer, err := next.Call(ctx, m, in, h)
			if err != nil {
				return nil, err
			}
			answer.Body = body
			return answer, nil
		})
	}
}

func TestOutputIsChecked(t *testing.T) {
	t.Parallel()
	north, err := proto.Marshal(&demov1.Vehicle{Id: 101, Position: &demov1.Position{Latitude: 91}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := proto.Marshal(&demov1.GetVehicleRequest{VehicleId: 101})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		body []byte
		want errmap.Code
		path string
	}{
		{"a broken rule", north, errmap.InvalidToolOutput, "/position/latitude"},
		{"cut in mid-field", []byte{0x12, 0x05, 'a'}, errmap.SerializationError, ""},
		{"no tag", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, errmap.SerializationError, ""},
		{"bytes that are no UTF-8 in a string", []byte{0x12, 0x01, 0xff}, errmap.SerializationError, ""},
		{"empty", nil, "", ""},
		{"unknown fields", []byte{0xf8, 0x3f, 0x01}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Adjust: server.Adjust{Upstream: altering(tc.body)}})
			for form, arguments := range map[string]bridge.Payload{
				"JSON": {Bytes: []byte(`{"vehicleId":"101"}`)},
				"wire": {Encoding: bridge.EncodingProtobuf, Bytes: request},
			} {
				req := toolCall(rig.Bridge, "fleet.get_vehicle", "")
				req.Arguments = arguments
				resp := rig.Bridge.Handle(t.Context(), req)
				if codeOf(resp) != tc.want {
					t.Errorf("%s: got %v, want %q", form, resp.Err, tc.want)
					continue
				}
				if tc.path != "" && (len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Path != tc.path) {
					t.Errorf("%s: violations %+v, want one at %s", form, resp.Err.Violations, tc.path)
				}
				if resp.Err != nil && resp.Result.Bytes != nil {
					t.Errorf("%s: a result beside the error", form)
				}
				if resp.Result.Encoding != arguments.Encoding && resp.Err == nil {
					t.Errorf("%s: the result is in another encoding", form)
				}
			}
		})
	}
}

func TestAResultOverItsLimitIsRefused(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{MaxResult: 200})
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":"short"}`)); resp.Err != nil {
		t.Errorf("a short one: %v", resp.Err)
	}
	resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":"`+strings.Repeat("n", 200)+`"}`))
	if codeOf(resp) != errmap.ResourceExhausted || resp.Result.Bytes != nil {
		t.Errorf("a long one: %v %d bytes, want RESOURCE_EXHAUSTED", resp.Err, len(resp.Result.Bytes))
	}
}

func TestWireArgumentsKeepTheRules(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	for name, tc := range map[string]struct {
		wire []byte
		want errmap.Code
	}{
		"a broken rule":     {[]byte{0x08, 0x00}, errmap.InvalidToolInput}, // vehicle_id: 0
		"cut in mid-varint": {[]byte{0x08, 0x80}, errmap.InvalidToolInput},
		"nothing":           {nil, errmap.InvalidToolInput},
		"good":              {[]byte{0x08, 0x65}, ""},
	} {
		req := toolCall(b, "fleet.get_vehicle", "")
		req.Arguments = bridge.Payload{Encoding: bridge.EncodingProtobuf, Bytes: tc.wire}
		if resp := b.Handle(t.Context(), req); codeOf(resp) != tc.want {
			t.Errorf("%s: got %v, want %q", name, resp.Err, tc.want)
		}
	}
}

// A value that JSON has no standard form for costs nothing but that form: the result has the rest, and its explanation names
// the value. A typed caller gets an error, as from the service's own JSON.
func TestValuesWithoutAFormAreNoted(t *testing.T) {
	t.Parallel()
	late := &timestamppb.Timestamp{Seconds: 253402300800}
	vehicle, err := proto.Marshal(&demov1.Vehicle{Id: 101, CallSign: "Kingfisher", LastSeen: late})
	if err != nil {
		t.Fatal(err)
	}
	rig := mcptest.Start(t, mcptest.Options{Adjust: server.Adjust{Upstream: altering(vehicle)}})
	resp := rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "fleet.get_vehicle", `{"vehicleId":"101"}`))
	if got := string(resp.Result.Bytes); resp.Err != nil || !strings.Contains(got, `"callSign":"Kingfisher"`) || !strings.Contains(got, `"lastSeen":"seconds:253402300800 nanos:0"`) {
		t.Errorf("got %s, %v", got, resp.Err)
	}
	if want := "/lastSeen is a Timestamp outside of the years 0001 to 9999"; !strings.HasPrefix(resp.Explanation, want) {
		t.Errorf("the explanation is %q, want %q", resp.Explanation, want)
	}
	typed := toolCall(rig.Bridge, "fleet.get_vehicle", `{"vehicleId":"101"}`)
	typed.Tool, typed.Procedure = "", "/outrigger.demo.v1.Fleet/GetVehicle"
	if resp := rig.Bridge.Handle(t.Context(), typed); codeOf(resp) != errmap.SerializationError || !strings.Contains(fmt.Sprint(errors.Unwrap(resp.Err)), "/lastSeen") {
		t.Errorf("typed: %v", resp.Err)
	}
}

func TestValuesWithoutAFormAreNotedInStreams(t *testing.T) {
	t.Parallel()
	update, err := proto.Marshal(&demov1.VehicleUpdate{ObservedAt: &timestamppb.Timestamp{Nanos: -1}})
	if err != nil {
		t.Fatal(err)
	}
	b := watching(t, &streaming{items: slices.Repeat([][]byte{update}, 9)}, bridge.Options{}).bridge
	resp := b.Handle(t.Context(), toolCall(b, "fleet.watch_vehicles", `{}`))
	if got := string(resp.Result.Bytes); resp.Err != nil || strings.Count(got, `"observedAt":"seconds:0 nanos:-1"`) != 9 {
		t.Errorf("got %s, %v", got, resp.Err)
	}
	if said := resp.Explanation; !strings.Contains(said, "/items/3/observedAt is") || strings.Contains(said, "/items/4") || !strings.HasSuffix(said, "More values like these follow.") {
		t.Errorf("the explanation is %q", said)
	}
}
