// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"math"
	"testing"
	"time"

	validatepb "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

func TestRulesAreEnforced(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	ctx := t.Context()
	refusal := func(_ any, err error) error { return err }
	order := func(change func(*demov1.PlaceOrderRequest)) error {
		req := &demov1.PlaceOrderRequest{
			Customer: "Clinic", Destination: &demov1.Destination{Place: &demov1.Destination_StopId{StopId: 6}},
			Parcels: []*demov1.Parcel{{Contents: "tea", WeightKg: 1}},
		}
		change(req)
		return refusal(p.fleet.PlaceOrder(ctx, connect.NewRequest(req)))
	}
	update := func(patch *demov1.VehiclePatch, paths ...string) error {
		return refusal(p.fleet.UpdateVehicle(ctx, connect.NewRequest(&demov1.UpdateVehicleRequest{
			VehicleId: 101, Patch: patch, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
		})))
	}
	for _, test := range []struct {
		name string
		err  error
		rule string // "" means accepted
	}{
		{"an order in order", order(func(*demov1.PlaceOrderRequest) {}), ""},
		{"a window that opens before it closes", order(func(r *demov1.PlaceOrderRequest) {
			r.Window = &demov1.DeliveryWindow{NotBefore: timestamppb.New(noon()), NotAfter: timestamppb.New(noon().Add(1))}
		}), ""},
		{"a window that closes before it opens", order(func(r *demov1.PlaceOrderRequest) {
			r.Window = &demov1.DeliveryWindow{NotBefore: timestamppb.New(noon()), NotAfter: timestamppb.New(noon().Add(-1))}
		}), "delivery_window.order"},
		{"no place", order(func(r *demov1.PlaceOrderRequest) { r.Destination = &demov1.Destination{} }), "required"},
		{"no parcels", order(func(r *demov1.PlaceOrderRequest) { r.Parcels = nil }), "repeated.min_items"},
		{"a parcel without weight", order(func(r *demov1.PlaceOrderRequest) { r.Parcels[0].WeightKg = math.NaN() }), "double.gt_lte"},
		{"a label with a bad name", order(func(r *demov1.PlaceOrderRequest) { r.Labels = map[string]string{"A b": ""} }), "string.pattern"},
		{"an empty mask", update(&demov1.VehiclePatch{}), "update_mask.not_empty"},
		{"a mask beyond the patch", update(&demov1.VehiclePatch{}, "id"), "field_mask.in"},
		{"a status that only an order sets", update(&demov1.VehiclePatch{Status: demov1.VehicleStatus_VEHICLE_STATUS_EN_ROUTE}, "status"), "enum.in"},
		{"an overfull battery", update(&demov1.VehiclePatch{BatteryPercent: wrapperspb.Double(101)}, "battery_percent"), "double.gte_lte"},
		{"a stop twice", refusal(p.fleet.PlanRoute(ctx, connect.NewRequest(&demov1.PlanRouteRequest{VehicleId: 101, StopIds: []int64{1, 1}}))), "repeated.unique"},
		{"a long sleep", refusal(p.lab.Sleep(ctx, connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(11 * time.Minute)}))), "duration.gte_lte"},
		{"a failure without a code", refusal(p.lab.Fail(ctx, connect.NewRequest(&demov1.FailRequest{}))), "enum.not_in"},
		{"a code that does not exist", refusal(p.lab.Fail(ctx, connect.NewRequest(&demov1.FailRequest{Code: 17}))), "enum.defined_only"},
		{"a header of the protocol", refusal(p.lab.Inspect(ctx, connect.NewRequest(&demov1.InspectRequest{ReplyHeaders: map[string]string{"grpc-status": "0"}}))), "string.pattern"},
		{"a header that breaks the line", refusal(p.lab.Inspect(ctx, connect.NewRequest(&demov1.InspectRequest{ReplyHeaders: map[string]string{"x-a": "1\r\nx-b: 2"}}))), "string.pattern"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.rule == "" {
				if test.err != nil {
					t.Error(test.err)
				}
				return
			}
			violations := detail[*validatepb.Violations](t, failureOf(t, test.err, connect.CodeInvalidArgument))
			if got := violations.GetViolations()[0].GetRuleId(); got != test.rule {
				t.Errorf("rule %q, want %q (%v)", got, test.rule, test.err)
			}
		})
	}
}
