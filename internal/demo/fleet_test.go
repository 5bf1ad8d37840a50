// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"image/png"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// The first order's id, 2^53 + 1; the others follow in steps of two.
const firstOrder = 9007199254740993

func TestListVehiclesPagesThroughTheFleet(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	var ids []int64
	req := &demov1.ListVehiclesRequest{PageSize: 4}
	for {
		page := ask(t, p.fleet.ListVehicles, req)
		var total int32
		for _, count := range page.GetCountByStatus() {
			total += count
		}
		if total != 9 {
			t.Errorf("counts %v do not add up to the fleet", page.GetCountByStatus())
		}
		for _, v := range page.GetVehicles() {
			ids = append(ids, v.GetId())
		}
		if page.GetNextPageToken() == "" {
			break
		}
		req.PageToken = page.GetNextPageToken()
	}
	if diff := cmp.Diff([]int64{101, 102, 103, 104, 105, 106, 107, 108, 109}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}

	chosen := ask(t, p.fleet.ListVehicles, &demov1.ListVehiclesRequest{
		Kinds:  []demov1.VehicleKind{demov1.VehicleKind_VEHICLE_KIND_CANOE, demov1.VehicleKind_VEHICLE_KIND_VAN},
		Status: demov1.VehicleStatus_VEHICLE_STATUS_IDLE.Enum(),
	})
	if got := chosen.GetVehicles(); len(got) != 2 || got[0].GetId() != 101 || got[1].GetId() != 106 {
		t.Errorf("idle canoes and vans: %v", got)
	}
}

func TestGetVehicleKeepsToTheReadMask(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	got := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{
		VehicleId: 103, ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"call_sign", "position.latitude", "battery_percent", "order_ids"}},
	})
	want := &demov1.Vehicle{
		CallSign: "Frigatebird", Position: &demov1.Position{Latitude: -16.4790}, OrderIds: []uint64{firstOrder + 4},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("vehicle (-want +got):\n%s", diff)
	}
}

func TestUpdateVehicleChangesWhatTheMaskNames(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	before := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: 101})
	req := &demov1.UpdateVehicleRequest{
		VehicleId:  101,
		Patch:      &demov1.VehiclePatch{CallSign: "ignored", BatteryPercent: wrapperspb.Double(5), Labels: map[string]string{"paint": "red"}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"battery_percent", "driver", "labels"}},
	}
	first := ask(t, p.fleet.UpdateVehicle, req)
	before.BatteryPercent, before.Driver, before.Labels = wrapperspb.Double(5), nil, map[string]string{"paint": "red"}
	if diff := cmp.Diff(before, first, protocmp.Transform()); diff != "" {
		t.Errorf("after the change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, ask(t, p.fleet.UpdateVehicle, req), protocmp.Transform()); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}

	_, err := p.fleet.UpdateVehicle(t.Context(), connect.NewRequest(&demov1.UpdateVehicleRequest{
		VehicleId:  106,
		Patch:      &demov1.VehiclePatch{CallSign: "Changed", BatteryPercent: wrapperspb.Double(50)},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"call_sign", "battery_percent"}},
	}))
	failureOf(t, err, connect.CodeInvalidArgument)
	if got := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: 106}).GetCallSign(); got != "Shearwater" {
		t.Errorf("a refused change left the call sign %q", got)
	}
}

func TestPlanRouteTakesTheFerryWhereItMust(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	route := ask(t, p.fleet.PlanRoute, &demov1.PlanRouteRequest{
		VehicleId: 101, StopIds: []int64{4, 12}, Departure: timestamppb.New(noon()), Stay: durationpb.New(5 * time.Minute),
	})
	legs := route.GetWay().GetLegs()
	if len(legs) != 2 || len(legs[0].GetLegs()) != 0 || len(legs[1].GetLegs()) != 3 {
		t.Fatalf("want a straight leg and one over two quays, got %v", legs)
	}
	crossing := legs[1].GetLegs()[1]
	if crossing.GetFrom() != "Motu Nui quay" || crossing.GetTo() != "Motu Iti quay" {
		t.Errorf("the crossing goes from %s to %s", crossing.GetFrom(), crossing.GetTo())
	}
	if km := crossing.GetDistanceKm(); km < 6.5 || km > 7 { // 0.058° of latitude are 6.45 km, 0.019° of longitude 2 km
		t.Errorf("the crossing is %g km long", km)
	}
	want := noon().Add(5*time.Minute + route.GetWay().GetTravelTime().AsDuration())
	if got := route.GetArrival().AsTime(); !got.Equal(want) {
		t.Errorf("arrival %v, want %v", got, want)
	}
	if left := route.GetBatteryPercentOnArrival(); left >= 88 || left < 86 {
		t.Errorf("battery on arrival: %g", left)
	}

	canoe := ask(t, p.fleet.PlanRoute, &demov1.PlanRouteRequest{VehicleId: 103, StopIds: []int64{22}})
	if len(canoe.GetWay().GetLegs()) != 0 || canoe.BatteryPercentOnArrival != nil {
		t.Errorf("a canoe goes straight and has no battery, got %v", canoe)
	}

	_, err := p.fleet.PlanRoute(t.Context(), connect.NewRequest(&demov1.PlanRouteRequest{VehicleId: 108, StopIds: []int64{12, 22}}))
	info := detail[*errdetails.ErrorInfo](t, failureOf(t, err, connect.CodeFailedPrecondition))
	if info.GetReason() != "BATTERY_TOO_LOW" || info.GetMetadata()["battery_percent"] != "37.0" {
		t.Errorf("reason: %v", info)
	}
}

func TestGetMapIsATree(t *testing.T) {
	t.Parallel()
	atoll := ask(t, grpcPeer(t, demo.Options{}).fleet.GetMap, &demov1.GetMapRequest{})
	if len(atoll.GetAreas()) != 3 || atoll.GetAreas()[0].GetAreas()[1].GetStops()[0].GetName() != "Coconut Café" {
		t.Errorf("map: %v", atoll)
	}
}

func TestFindOrdersCombinesConditions(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	placed := &demov1.OrderFilter{Condition: &demov1.OrderFilter_Status{Status: demov1.OrderStatus_ORDER_STATUS_PLACED}}
	heavy := &demov1.OrderFilter{Condition: &demov1.OrderFilter_HeavierThanKg{HeavierThanKg: 20}}
	phone := &demov1.OrderFilter{Condition: &demov1.OrderFilter_Label{Label: &demov1.Label{Name: "channel", Value: "phone"}}}
	not := func(f *demov1.OrderFilter) *demov1.OrderFilter {
		return &demov1.OrderFilter{Condition: &demov1.OrderFilter_Not{Not: f}}
	}
	all := func(f ...*demov1.OrderFilter) *demov1.OrderFilter {
		return &demov1.OrderFilter{Condition: &demov1.OrderFilter_All{All: &demov1.OrderFilterList{Filters: f}}}
	}
	anyOf := func(f ...*demov1.OrderFilter) *demov1.OrderFilter {
		return &demov1.OrderFilter{Condition: &demov1.OrderFilter_Any{Any: &demov1.OrderFilterList{Filters: f}}}
	}
	for _, test := range []struct {
		name   string
		filter *demov1.OrderFilter
		want   []string
	}{
		{"status", placed, []string{"Clinic", "Research station", "Yacht Sirocco", "Auntie Vai", "Fish market"}},
		{"all and not", all(placed, not(heavy)), []string{"Clinic", "Yacht Sirocco", "Auntie Vai"}},
		{"any", all(placed, anyOf(heavy, phone)), []string{"Clinic", "Research station", "Auntie Vai", "Fish market"}},
		{"vehicle", &demov1.OrderFilter{Condition: &demov1.OrderFilter_VehicleId{VehicleId: 102}}, []string{"Coconut Café", "Banyan school"}},
		{"customer", &demov1.OrderFilter{Condition: &demov1.OrderFilter_CustomerContains{CustomerContains: "ST"}}, []string{"Research station"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := ask(t, p.fleet.FindOrders, &demov1.FindOrdersRequest{Filter: test.filter})
			var got []string
			for _, o := range found.GetOrders() {
				got = append(got, o.GetCustomer())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("customers (-want +got):\n%s", diff)
			}
		})
	}
	some := ask(t, p.fleet.FindOrders, &demov1.FindOrdersRequest{Limit: 2})
	if len(some.GetOrders()) != 2 || some.GetTotalMatches() != 9 {
		t.Errorf("%d of %d orders, want 2 of 9", len(some.GetOrders()), some.GetTotalMatches())
	}

	for _, test := range []struct {
		name   string
		depth  int
		refuse bool
	}{{"deepest", 8, false}, {"too deep", 9, true}} {
		t.Run(test.name, func(t *testing.T) {
			nested := placed
			for range test.depth - 1 {
				nested = not(nested)
			}
			_, err := p.fleet.FindOrders(t.Context(), connect.NewRequest(&demov1.FindOrdersRequest{Filter: nested}))
			if (err != nil) != test.refuse {
				t.Errorf("depth %d: %v", test.depth, err)
			}
		})
	}
	ten := make([]*demov1.OrderFilter, 10)
	for i := range ten {
		ten[i] = all(placed, placed, placed, placed, placed, placed, placed, placed, placed, placed)
	}
	_, err := p.fleet.FindOrders(t.Context(), connect.NewRequest(&demov1.FindOrdersRequest{Filter: all(ten...)}))
	failureOf(t, err, connect.CodeInvalidArgument)
}

func TestAnOrderFromPlacingToCancelling(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	placed := ask(t, p.fleet.PlaceOrder, &demov1.PlaceOrderRequest{
		Customer:    "Auntie Vai",
		Destination: &demov1.Destination{Place: &demov1.Destination_Position{Position: &demov1.Position{Latitude: -16.5, Longitude: -151.7}}},
		Parcels:     []*demov1.Parcel{{Contents: "ukulele", WeightKg: 1.2, ValueCents: 25_000, Fragile: true}},
		Labels:      map[string]string{"gift": "yes"},
	})
	if placed.GetId() != firstOrder+18 || !placed.GetPlacedAt().AsTime().Equal(noon()) {
		t.Errorf("placed as %d at %v", placed.GetId(), placed.GetPlacedAt().AsTime())
	}
	if diff := cmp.Diff(placed, ask(t, p.fleet.GetOrder, &demov1.GetOrderRequest{OrderId: placed.GetId()}), protocmp.Transform()); diff != "" {
		t.Errorf("read back (-placed +read):\n%s", diff)
	}

	first := ask(t, p.fleet.AssignOrder, &demov1.AssignOrderRequest{OrderId: placed.GetId(), VehicleId: 105})
	again := ask(t, p.fleet.AssignOrder, &demov1.AssignOrderRequest{OrderId: placed.GetId(), VehicleId: 105})
	if diff := cmp.Diff(first, again, protocmp.Transform()); diff != "" {
		t.Errorf("assigned twice (-first +second):\n%s", diff)
	}
	moved := ask(t, p.fleet.AssignOrder, &demov1.AssignOrderRequest{OrderId: placed.GetId(), VehicleId: 101})
	if got := moved.GetVehicle().GetOrderIds(); len(got) != 1 || got[0] != placed.GetId() {
		t.Errorf("on board of the van: %v", got)
	}
	drone := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: 105})
	if len(drone.GetOrderIds()) != 0 || drone.GetStatus() != demov1.VehicleStatus_VEHICLE_STATUS_IDLE {
		t.Errorf("the drone still has %v and is %v", drone.GetOrderIds(), drone.GetStatus())
	}

	cancelled := ask(t, p.fleet.CancelOrder, &demov1.CancelOrderRequest{OrderId: placed.GetId(), Reason: "found one in the shed"})
	if cancelled.GetReason() != "found one in the shed" || cancelled.GetOrder().GetId() != placed.GetId() {
		t.Errorf("cancelled: %v", cancelled)
	}
	_, err := p.fleet.GetOrder(t.Context(), connect.NewRequest(&demov1.GetOrderRequest{OrderId: placed.GetId()}))
	resource := detail[*errdetails.ResourceInfo](t, failureOf(t, err, connect.CodeNotFound))
	if resource.GetResourceName() != strconv.FormatUint(placed.GetId(), 10) {
		t.Errorf("resource: %v", resource)
	}
	if got := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: 101}).GetOrderIds(); len(got) != 0 {
		t.Errorf("the van still has %v", got)
	}
}

func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{MaxOrders: 9})
	ctx := t.Context()
	refusal := func(_ any, err error) error { return err }
	for _, test := range []struct {
		name   string
		err    error
		code   connect.Code
		reason string // of ErrorInfo
	}{
		{"workshop", refusal(p.fleet.AssignOrder(ctx, connect.NewRequest(&demov1.AssignOrderRequest{OrderId: firstOrder + 6, VehicleId: 107}))), connect.CodeFailedPrecondition, "IN_WORKSHOP"},
		{"too heavy", refusal(p.fleet.AssignOrder(ctx, connect.NewRequest(&demov1.AssignOrderRequest{OrderId: firstOrder + 16, VehicleId: 102}))), connect.CodeFailedPrecondition, "TOO_HEAVY"},
		{"assign delivered", refusal(p.fleet.AssignOrder(ctx, connect.NewRequest(&demov1.AssignOrderRequest{OrderId: firstOrder, VehicleId: 101}))), connect.CodeFailedPrecondition, "ALREADY_DELIVERED"},
		{"cancel delivered", refusal(p.fleet.CancelOrder(ctx, connect.NewRequest(&demov1.CancelOrderRequest{OrderId: firstOrder}))), connect.CodeFailedPrecondition, "ALREADY_DELIVERED"},
		{"proof too early", refusal(p.fleet.GetDeliveryProof(ctx, connect.NewRequest(&demov1.GetDeliveryProofRequest{OrderId: firstOrder + 2}))), connect.CodeFailedPrecondition, "NOT_DELIVERED"},
		{"book full", refusal(p.fleet.PlaceOrder(ctx, connect.NewRequest(&demov1.PlaceOrderRequest{
			Customer: "a", Parcels: []*demov1.Parcel{{Contents: "b", WeightKg: 1}},
			Destination: &demov1.Destination{Place: &demov1.Destination_StopId{StopId: 1}},
		}))), connect.CodeResourceExhausted, "BOOK_FULL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := detail[*errdetails.ErrorInfo](t, failureOf(t, test.err, test.code))
			if info.GetReason() != test.reason || info.GetDomain() != "lagoon-express.example" {
				t.Errorf("reason %v, want %s", info, test.reason)
			}
		})
	}
	for _, test := range []struct {
		name string
		err  error
	}{
		{"vehicle", refusal(p.fleet.GetVehicle(ctx, connect.NewRequest(&demov1.GetVehicleRequest{VehicleId: 7})))},
		{"stop", refusal(p.fleet.PlanRoute(ctx, connect.NewRequest(&demov1.PlanRouteRequest{VehicleId: 101, StopIds: []int64{7}})))},
		{"order", refusal(p.fleet.AssignOrder(ctx, connect.NewRequest(&demov1.AssignOrderRequest{OrderId: firstOrder - 1, VehicleId: 101})))},
	} {
		t.Run("no "+test.name, func(t *testing.T) {
			if got := detail[*errdetails.ResourceInfo](t, failureOf(t, test.err, connect.CodeNotFound)).GetResourceType(); got != test.name {
				t.Errorf("resource type %q", got)
			}
		})
	}
}

func TestDeliveryProofIsAPicture(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	proof := ask(t, p.fleet.GetDeliveryProof, &demov1.GetDeliveryProofRequest{OrderId: firstOrder})
	picture, err := png.Decode(bytes.NewReader(proof.GetImage()))
	if err != nil {
		t.Fatalf("picture: %v", err)
	}
	if size := picture.Bounds().Size(); size.X != 160 || size.Y != 48 {
		t.Errorf("size %v", size)
	}
	if sum := sha256.Sum256(proof.GetImage()); !bytes.Equal(sum[:], proof.GetSha256()) {
		t.Error("the sum is not that of the picture")
	}
	again := ask(t, p.fleet.GetDeliveryProof, &demov1.GetDeliveryProofRequest{OrderId: firstOrder})
	other := ask(t, p.fleet.GetDeliveryProof, &demov1.GetDeliveryProofRequest{OrderId: firstOrder + 14})
	if !bytes.Equal(proof.GetImage(), again.GetImage()) || bytes.Equal(proof.GetImage(), other.GetImage()) {
		t.Error("a signature belongs to its order")
	}
}

func TestWatchVehiclesStreamsRounds(t *testing.T) {
	t.Parallel()
	stream, err := grpcPeer(t, demo.Options{}).fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{
		VehicleIds: []int64{101, 102}, Rounds: 3, Interval: durationpb.New(time.Millisecond),
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	where := make(map[int64]map[float64]bool)
	for stream.Receive() {
		id := stream.Msg().GetVehicleId()
		got = append(got, id)
		if where[id] == nil {
			where[id] = make(map[float64]bool)
		}
		where[id][stream.Msg().GetPosition().GetLatitude()] = true
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{101, 102, 101, 102, 101, 102}, got); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	if len(where[101]) != 1 || len(where[102]) != 3 {
		t.Errorf("the idle van was seen in %d places, the bike under way in %d", len(where[101]), len(where[102]))
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReportPositionsMovesTheVehicle(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	stream := p.fleet.ReportPositions(t.Context())
	report := func(latitude float64, at time.Time) {
		if err := stream.Send(&demov1.PositionReport{
			VehicleId: 101, Position: &demov1.Position{Latitude: latitude, Longitude: -151.75}, ObservedAt: timestamppb.New(at),
		}); err != nil {
			t.Fatal(err)
		}
	}
	report(-16.50, noon())
	report(-16.51, noon().Add(time.Minute))
	report(-16.50, noon().Add(-time.Hour)) // late, and older than what is known
	res, err := stream.CloseAndReceive()
	if err != nil {
		t.Fatal(err)
	}
	if km := res.Msg.GetDistanceKm()[101]; res.Msg.GetReceived() != 3 || km < 2.22 || km > 2.23 {
		t.Errorf("summary: %v", res.Msg)
	}
	v := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: 101})
	if v.GetPosition().GetLatitude() != -16.51 || !v.GetLastSeen().AsTime().Equal(noon().Add(time.Minute)) {
		t.Errorf("the vehicle is at %v since %v", v.GetPosition(), v.GetLastSeen().AsTime())
	}

	bad := p.fleet.ReportPositions(context.WithoutCancel(t.Context()))
	_ = bad.Send(&demov1.PositionReport{VehicleId: 101}) // the answer below tells what is wrong
	_, err = bad.CloseAndReceive()
	failureOf(t, err, connect.CodeInvalidArgument)
}
