// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// defaultDelivery is what a delivery of an order without its own plan is expected to take.
const defaultDelivery = 30 * time.Minute

func (f *fleet) FindOrders(_ context.Context, req *connect.Request[demov1.FindOrdersRequest]) (*connect.Response[demov1.FindOrdersResponse], error) {
	if err := checkFilter(req.Msg.GetFilter()); err != nil {
		return nil, err
	}
	limit := pageSize(req.Msg.GetLimit())
	orders, total := f.desk.findOrders(func(o *demov1.Order) bool { return matches(req.Msg.GetFilter(), o) }, limit)
	return connect.NewResponse(&demov1.FindOrdersResponse{Orders: orders, TotalMatches: total}), nil
}

func (f *fleet) GetOrder(_ context.Context, req *connect.Request[demov1.GetOrderRequest]) (*connect.Response[demov1.Order], error) {
	o, err := f.desk.order(req.Msg.GetOrderId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(o), nil
}

func (f *fleet) PlaceOrder(_ context.Context, req *connect.Request[demov1.PlaceOrderRequest]) (*connect.Response[demov1.Order], error) {
	if id := req.Msg.GetDestination().GetStopId(); id != 0 {
		if _, ok := f.atlas.stops[id]; !ok {
			return nil, noStop(id)
		}
	}
	o, err := f.desk.place(&demov1.Order{
		Customer: req.Msg.GetCustomer(), Destination: req.Msg.GetDestination(), Parcels: req.Msg.GetParcels(),
		Window: req.Msg.GetWindow(), Labels: req.Msg.GetLabels(),
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(o), nil
}

func (f *fleet) AssignOrder(_ context.Context, req *connect.Request[demov1.AssignOrderRequest]) (*connect.Response[demov1.AssignOrderResponse], error) {
	o, v, err := f.desk.assign(req.Msg.GetOrderId(), req.Msg.GetVehicleId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&demov1.AssignOrderResponse{Order: o, Vehicle: v}), nil
}

func (f *fleet) CancelOrder(_ context.Context, req *connect.Request[demov1.CancelOrderRequest]) (*connect.Response[demov1.CancelOrderResponse], error) {
	o, err := f.desk.cancel(req.Msg.GetOrderId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&demov1.CancelOrderResponse{Order: o, Reason: req.Msg.GetReason()}), nil
}

func (f *fleet) GetDeliveryProof(_ context.Context, req *connect.Request[demov1.GetDeliveryProofRequest]) (*connect.Response[demov1.DeliveryProof], error) {
	o, err := f.desk.order(req.Msg.GetOrderId())
	if err != nil {
		return nil, err
	}
	if o.GetStatus() != demov1.OrderStatus_ORDER_STATUS_DELIVERED {
		return nil, notNow("NOT_DELIVERED", subjectOrder(o.GetId()), "the order is not delivered yet",
			map[string]string{"status": o.GetStatus().String()})
	}
	proof, err := signature(o)
	if err != nil {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("draw the signature: %w", err))
	}
	return connect.NewResponse(proof), nil
}

// mayCarry refuses what a vehicle cannot take on top of its load. The caller holds the lock.
func (d *desk) mayCarry(v *demov1.Vehicle, o *demov1.Order) error {
	if o.GetStatus() == demov1.OrderStatus_ORDER_STATUS_DELIVERED {
		return alreadyDelivered(o.GetId())
	}
	subject := "vehicle:" + strconv.FormatInt(v.GetId(), 10)
	if v.GetStatus() == demov1.VehicleStatus_VEHICLE_STATUS_IN_WORKSHOP {
		return notNow("IN_WORKSHOP", subject, v.GetCallSign()+" is in the workshop",
			map[string]string{"call_sign": v.GetCallSign()})
	}
	if slices.Contains(v.GetOrderIds(), o.GetId()) {
		return nil
	}
	free := v.GetCapacityKg()
	for _, id := range v.GetOrderIds() {
		free -= weight(d.orders[id])
	}
	if needed := weight(o); needed > free {
		return notNow("TOO_HEAVY", subject, fmt.Sprintf("%s has %g kg free, and the order weighs %g kg", v.GetCallSign(), free, needed),
			map[string]string{"free_kg": fmt.Sprint(free), "needed_kg": fmt.Sprint(needed)})
	}
	return nil
}

func alreadyDelivered(id uint64) error {
	return notNow("ALREADY_DELIVERED", subjectOrder(id), "the order is delivered already", nil)
}

func subjectOrder(id uint64) string { return "order:" + strconv.FormatUint(id, 10) }

func weight(o *demov1.Order) float64 {
	var sum float64
	for _, p := range o.GetParcels() {
		sum += p.GetWeightKg()
	}
	return sum
}

// defaultPageSize is the size of a page whose caller does not say: a model reads 20 entries in one look.
const defaultPageSize = 20

// fleet serves outrigger.demo.v1.Fleet.
type fleet struct {
	desk     *desk
	atlas    *atlas
	now      func() time.Time
	stopping <-chan struct{}
}

func newFleet(opts Options, stopping <-chan struct{}) *fleet {
	return &fleet{desk: newDesk(opts.Now, opts.MaxOrders), atlas: newAtlas(seedMap()), now: opts.Now, stopping: stopping}
}

func pageSize(asked int32) int {
	if asked == 0 {
		return defaultPageSize
	}
	return int(asked)
}

func (f *fleet) ListVehicles(_ context.Context, req *connect.Request[demov1.ListVehiclesRequest]) (*connect.Response[demov1.ListVehiclesResponse], error) {
	var after int64
	if token := req.Msg.GetPageToken(); token != "" {
		id, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			return nil, badField("page_token", "this token did not come from an earlier page")
		}
		after = id
	}
	size := pageSize(req.Msg.GetPageSize())
	page := &demov1.ListVehiclesResponse{CountByStatus: make(map[string]int32)}
	for _, v := range f.desk.allVehicles() {
		if !isWanted(v, req.Msg) {
			continue
		}
		page.CountByStatus[v.GetStatus().String()]++
		if v.GetId() <= after {
			continue
		}
		if len(page.GetVehicles()) == size {
			page.NextPageToken = strconv.FormatInt(page.GetVehicles()[size-1].GetId(), 10)
			continue
		}
		page.Vehicles = append(page.Vehicles, v)
	}
	return connect.NewResponse(page), nil
}

func isWanted(v *demov1.Vehicle, req *demov1.ListVehiclesRequest) bool {
	if req.Status != nil && v.GetStatus() != req.GetStatus() {
		return false
	}
	if len(req.GetKinds()) == 0 {
		return true
	}
	for _, kind := range req.GetKinds() {
		if v.GetKind() == kind {
			return true
		}
	}
	return false
}

func (f *fleet) GetVehicle(_ context.Context, req *connect.Request[demov1.GetVehicleRequest]) (*connect.Response[demov1.Vehicle], error) {
	v, err := f.desk.vehicle(req.Msg.GetVehicleId())
	if err != nil {
		return nil, err
	}
	if mask := req.Msg.GetReadMask(); len(mask.GetPaths()) > 0 {
		if !mask.IsValid(v) {
			return nil, badField("read_mask", "a path does not lead to a field")
		}
		v = project(v, mask)
	}
	return connect.NewResponse(v), nil
}

// project returns a vehicle with only the fields that a valid mask names.
func project(v *demov1.Vehicle, mask *fieldmaskpb.FieldMask) *demov1.Vehicle {
	kept := new(demov1.Vehicle)
	for _, path := range mask.GetPaths() {
		keep(kept.ProtoReflect(), v.ProtoReflect(), strings.Split(path, "."))
	}
	return kept
}

func keep(to, from protoreflect.Message, path []string) {
	field := from.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case !from.Has(field):
	case len(path) == 1:
		to.Set(field, from.Get(field))
	default:
		keep(to.Mutable(field).Message(), from.Get(field).Message(), path[1:])
	}
}

func (f *fleet) UpdateVehicle(_ context.Context, req *connect.Request[demov1.UpdateVehicleRequest]) (*connect.Response[demov1.Vehicle], error) {
	v, err := f.desk.changeVehicle(req.Msg.GetVehicleId(), func(v *demov1.Vehicle) error {
		changed := proto.CloneOf(v)
		for _, path := range req.Msg.GetUpdateMask().GetPaths() {
			if err := apply(changed, req.Msg.GetPatch(), path); err != nil {
				return err
			}
		}
		proto.Reset(v)
		proto.Merge(v, changed)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(v), nil
}

// apply changes one field of a vehicle. The rules of the .proto file have checked the values.
func apply(v *demov1.Vehicle, patch *demov1.VehiclePatch, path string) error {
	switch path {
	case "call_sign":
		if patch.GetCallSign() == "" {
			return badField("patch.call_sign", "a vehicle needs a call sign")
		}
		v.CallSign = patch.GetCallSign()
	case "status":
		if patch.GetStatus() == demov1.VehicleStatus_VEHICLE_STATUS_UNSPECIFIED {
			return badField("patch.status", "say which status")
		}
		v.Status = patch.GetStatus()
	case "battery_percent":
		if v.GetKind() == demov1.VehicleKind_VEHICLE_KIND_CANOE {
			return badField("patch.battery_percent", "a canoe has no battery")
		}
		if patch.GetBatteryPercent() == nil {
			return badField("patch.battery_percent", "say how full the battery is")
		}
		v.BatteryPercent = patch.GetBatteryPercent()
	case "driver":
		v.Driver = patch.Driver
	case "labels":
		v.Labels = maps.Clone(patch.GetLabels())
	default:
		return badField("update_mask", "name whole fields of the patch, not "+strconv.Quote(path))
	}
	return nil
}

const (
	// maxFilterDepth bounds how deep conditions nest. Eight levels are not written by hand.
	maxFilterDepth = 8
	// maxFilterSize bounds the conditions in one filter, because each of them is tried on every order.
	maxFilterSize = 100
)

// checkFilter refuses filters that are too deep or too large. The rules of the .proto file see one level only.
func checkFilter(filter *demov1.OrderFilter) error {
	size := 0
	var walk func(*demov1.OrderFilter, int) error
	walk = func(f *demov1.OrderFilter, depth int) error {
		size++
		if depth > maxFilterDepth {
			return badField("filter", fmt.Sprintf("conditions nest at most %d deep", maxFilterDepth))
		}
		if size > maxFilterSize {
			return badField("filter", fmt.Sprintf("at most %d conditions", maxFilterSize))
		}
		for _, nested := range nestedFilters(f) {
			if err := walk(nested, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if filter == nil {
		return nil
	}
	return walk(filter, 1)
}

func nestedFilters(f *demov1.OrderFilter) []*demov1.OrderFilter {
	switch c := f.GetCondition().(type) {
	case *demov1.OrderFilter_Not:
		return []*demov1.OrderFilter{c.Not}
	case *demov1.OrderFilter_All:
		return c.All.GetFilters()
	case *demov1.OrderFilter_Any:
		return c.Any.GetFilters()
	default:
		return nil
	}
}

// matches reports whether an order meets a condition. Every order meets an absent one.
func matches(f *demov1.OrderFilter, o *demov1.Order) bool {
	switch c := f.GetCondition().(type) {
	case *demov1.OrderFilter_Status:
		return o.GetStatus() == c.Status
	case *demov1.OrderFilter_VehicleId:
		return o.GetVehicleId().GetValue() == c.VehicleId
	case *demov1.OrderFilter_CustomerContains:
		return strings.Contains(strings.ToLower(o.GetCustomer()), strings.ToLower(c.CustomerContains))
	case *demov1.OrderFilter_HeavierThanKg:
		return weight(o) > c.HeavierThanKg
	case *demov1.OrderFilter_Label:
		value, ok := o.GetLabels()[c.Label.GetName()]
		return ok && value == c.Label.GetValue()
	case *demov1.OrderFilter_Not:
		return !matches(c.Not, o)
	case *demov1.OrderFilter_All:
		for _, nested := range c.All.GetFilters() {
			if !matches(nested, o) {
				return false
			}
		}
		return true
	case *demov1.OrderFilter_Any:
		for _, nested := range c.Any.GetFilters() {
			if matches(nested, o) {
				return true
			}
		}
		return false
	default:
		return true
	}
}

const (
	defaultRounds   = 3
	defaultInterval = 200 * time.Millisecond
	// driftDegrees is how far a moving vehicle gets in one round: some 50 m, so that each round shows a change.
	driftDegrees = 0.0005
)

func (f *fleet) WatchVehicles(ctx context.Context, req *connect.Request[demov1.WatchVehiclesRequest], stream *connect.ServerStream[demov1.VehicleUpdate]) error {
	return f.watch(ctx, req.Msg, stream.Send)
}

// watch sends the rounds asked for. It ends early with the context, and when the server closes.
func (f *fleet) watch(ctx context.Context, req *demov1.WatchVehiclesRequest, send func(*demov1.VehicleUpdate) error) error {
	watched, err := f.watched(req.GetVehicleIds())
	if err != nil {
		return err
	}
	rounds, interval := int32(defaultRounds), defaultInterval
	if req.GetRounds() > 0 {
		rounds = req.GetRounds()
	}
	if req.GetInterval() != nil {
		interval = req.GetInterval().AsDuration()
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for round := int32(1); ; round++ {
		for _, id := range watched {
			v, err := f.desk.vehicle(id)
			if err != nil {
				return err
			}
			if err := send(f.update(v, round)); err != nil {
				return err
			}
		}
		if round == rounds {
			return nil
		}
		timer.Reset(interval)
		select {
		case <-timer.C:
		case <-f.stopping:
			return connect.NewError(connect.CodeUnavailable, errors.New("the service is closing"))
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// watched returns the ids to watch: those asked for, or those under way.
func (f *fleet) watched(asked []int64) ([]int64, error) {
	for _, id := range asked {
		if _, err := f.desk.vehicle(id); err != nil {
			return nil, err
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	var moving []int64
	for _, v := range f.desk.allVehicles() {
		if v.GetStatus() == demov1.VehicleStatus_VEHICLE_STATUS_EN_ROUTE {
			moving = append(moving, v.GetId())
		}
	}
	return moving, nil
}

// update tells where a vehicle is in a round. One that is under way drifts along its own heading; watching it does not
// move it for others, so that reading stays reading.
func (f *fleet) update(v *demov1.Vehicle, round int32) *demov1.VehicleUpdate {
	seen := &demov1.Position{Latitude: v.GetPosition().GetLatitude(), Longitude: v.GetPosition().GetLongitude()}
	if v.GetStatus() == demov1.VehicleStatus_VEHICLE_STATUS_EN_ROUTE {
		heading := float64(v.GetId())
		seen.Latitude += float64(round) * driftDegrees * math.Cos(heading)
		seen.Longitude += float64(round) * driftDegrees * math.Sin(heading)
	}
	return &demov1.VehicleUpdate{
		Round: round, VehicleId: v.GetId(), Position: seen, Status: v.GetStatus(), ObservedAt: timestamppb.New(f.now()),
	}
}

func (f *fleet) ReportPositions(_ context.Context, stream *connect.ClientStream[demov1.PositionReport]) (*connect.Response[demov1.ReportPositionsResponse], error) {
	summary := &demov1.ReportPositionsResponse{DistanceKm: make(map[int64]float64)}
	last := make(map[int64]*demov1.Position)
	for stream.Receive() {
		report := stream.Msg()
		id := report.GetVehicleId()
		if _, err := f.desk.changeVehicle(id, func(v *demov1.Vehicle) error {
			if report.GetObservedAt().AsTime().After(v.GetLastSeen().AsTime()) {
				v.Position, v.LastSeen = report.GetPosition(), report.GetObservedAt()
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if before, ok := last[id]; ok {
			summary.DistanceKm[id] += distanceKm(before, report.GetPosition())
		} else {
			summary.DistanceKm[id] = 0
		}
		last[id] = report.GetPosition()
		summary.Received++
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return connect.NewResponse(summary), nil
}

const (
	// ferryKmh is the speed of the ferry, which takes bikes and vans between islands without using their battery.
	ferryKmh = 14
	// defaultStay is the time at a stop when the caller does not say.
	defaultStay = 2 * time.Minute
)

// engine is what a kind of vehicle needs to move.
type engine struct {
	kmh          float64
	percentPerKm float64 // of the battery
	crossesWater bool
}

func engineOf(kind demov1.VehicleKind) engine {
	switch kind {
	case demov1.VehicleKind_VEHICLE_KIND_CARGO_BIKE:
		return engine{kmh: 16, percentPerKm: 2}
	case demov1.VehicleKind_VEHICLE_KIND_VAN:
		return engine{kmh: 30, percentPerKm: 0.5}
	case demov1.VehicleKind_VEHICLE_KIND_DRONE:
		return engine{kmh: 55, percentPerKm: 8, crossesWater: true}
	case demov1.VehicleKind_VEHICLE_KIND_CANOE:
		return engine{kmh: 9, crossesWater: true}
	case demov1.VehicleKind_VEHICLE_KIND_UNSPECIFIED:
		return engine{kmh: 5}
	default:
		return engine{kmh: 5}
	}
}

func (f *fleet) GetMap(context.Context, *connect.Request[demov1.GetMapRequest]) (*connect.Response[demov1.Area], error) {
	return connect.NewResponse(f.atlas.root), nil
}

func (f *fleet) PlanRoute(_ context.Context, req *connect.Request[demov1.PlanRouteRequest]) (*connect.Response[demov1.Route], error) {
	v, err := f.desk.vehicle(req.Msg.GetVehicleId())
	if err != nil {
		return nil, err
	}
	stops := make([]place, 0, len(req.Msg.GetStopIds()))
	for _, id := range req.Msg.GetStopIds() {
		s, ok := f.atlas.stops[id]
		if !ok {
			return nil, noStop(id)
		}
		stops = append(stops, s)
	}
	stay := defaultStay
	if req.Msg.GetStay() != nil {
		stay = req.Msg.GetStay().AsDuration()
	}
	departure := f.now()
	if req.Msg.GetDeparture() != nil {
		departure = req.Msg.GetDeparture().AsTime()
	}

	motor := engineOf(v.GetKind())
	way, drivenKm := f.atlas.way(v, motor, stops)
	route := &demov1.Route{
		Way:         way,
		Departure:   timestamppb.New(departure),
		TimeAtStops: durationpb.New(stay * time.Duration(len(stops)-1)),
	}
	route.Arrival = timestamppb.New(departure.Add(way.GetTravelTime().AsDuration() + route.GetTimeAtStops().AsDuration()))
	if v.GetBatteryPercent() != nil {
		left := v.GetBatteryPercent().GetValue() - drivenKm*motor.percentPerKm
		if left < 0 {
			return nil, notNow("BATTERY_TOO_LOW", "vehicle:"+v.GetCallSign(),
				fmt.Sprintf("%s runs out of battery on the way", v.GetCallSign()),
				map[string]string{
					"battery_percent": fmt.Sprintf("%.1f", v.GetBatteryPercent().GetValue()),
					"needed_percent":  fmt.Sprintf("%.1f", drivenKm*motor.percentPerKm),
				})
		}
		route.BatteryPercentOnArrival = &left
	}
	return connect.NewResponse(route), nil
}

// way joins the legs over all stops, and tells how many kilometres the vehicle drives by itself.
func (a *atlas) way(v *demov1.Vehicle, motor engine, stops []place) (*demov1.Leg, float64) {
	here := place{name: v.GetCallSign() + "'s position", island: a.islandAt(v.GetPosition()), position: v.GetPosition()}
	var legs []*demov1.Leg
	var driven float64
	for _, next := range stops {
		leg, km := a.leg(here, next, motor)
		legs = append(legs, leg)
		driven += km
		here = next
	}
	return joined(legs), driven
}

// leg leads from one place to another: straight, or over two quays where the vehicle needs the ferry.
func (a *atlas) leg(from, to place, motor engine) (*demov1.Leg, float64) {
	if motor.crossesWater || from.island == to.island {
		direct := straight(from, to, motor.kmh)
		return direct, direct.GetDistanceKm()
	}
	out, in := a.quays[from.island], a.quays[to.island]
	var legs []*demov1.Leg
	var driven float64
	if from.name != out.name {
		legs = append(legs, straight(from, out, motor.kmh))
		driven += legs[0].GetDistanceKm()
	}
	legs = append(legs, straight(out, in, ferryKmh))
	if to.name != in.name {
		last := straight(in, to, motor.kmh)
		legs = append(legs, last)
		driven += last.GetDistanceKm()
	}
	return joined(legs), driven
}

func straight(from, to place, kmh float64) *demov1.Leg {
	km := distanceKm(from.position, to.position)
	return &demov1.Leg{
		From: from.name, To: to.name, DistanceKm: km,
		TravelTime: durationpb.New(time.Duration(km / kmh * float64(time.Hour)).Round(time.Second)),
	}
}

// joined makes one leg of several. One leg stays as it is.
func joined(legs []*demov1.Leg) *demov1.Leg {
	if len(legs) == 1 {
		return legs[0]
	}
	whole := &demov1.Leg{From: legs[0].GetFrom(), To: legs[len(legs)-1].GetTo(), Legs: legs}
	var total time.Duration
	for _, leg := range legs {
		whole.DistanceKm += leg.GetDistanceKm()
		total += leg.GetTravelTime().AsDuration()
	}
	whole.TravelTime = durationpb.New(total)
	return whole
}

// earthRadiusKm is the mean radius of the Earth (IUGG).
const earthRadiusKm = 6371.0088

// place is a point with a name and an island.
type place struct {
	name     string
	island   string
	position *demov1.Position
}

// atlas is the map with its indexes. It never changes.
type atlas struct {
	root  *demov1.Area
	stops map[int64]place
	quays map[string]place // by island
}

func newAtlas(root *demov1.Area) *atlas {
	a := &atlas{root: root, stops: make(map[int64]place), quays: make(map[string]place)}
	for _, island := range root.GetAreas() {
		a.index(island, island.GetName())
	}
	return a
}

// index enters the stops of an area. The first stop of an island is its quay.
func (a *atlas) index(area *demov1.Area, island string) {
	for _, s := range area.GetStops() {
		p := place{name: s.GetName(), island: island, position: s.GetPosition()}
		a.stops[s.GetId()] = p
		if _, ok := a.quays[island]; !ok {
			a.quays[island] = p
		}
	}
	for _, inner := range area.GetAreas() {
		a.index(inner, island)
	}
}

// islandAt returns the island whose quay is nearest.
func (a *atlas) islandAt(p *demov1.Position) string {
	nearest, best := "", math.Inf(1)
	for island, quay := range a.quays {
		if d := distanceKm(p, quay.position); d < best {
			nearest, best = island, d
		}
	}
	return nearest
}

// distanceKm is the great-circle distance (haversine).
func distanceKm(from, to *demov1.Position) float64 {
	const radians = math.Pi / 180
	lat1, lat2 := from.GetLatitude()*radians, to.GetLatitude()*radians
	dLat, dLon := lat2-lat1, (to.GetLongitude()-from.GetLongitude())*radians
	h := math.Pow(math.Sin(dLat/2), 2) + math.Cos(lat1)*math.Cos(lat2)*math.Pow(math.Sin(dLon/2), 2)
	// Rounding can push h past 1 for points on opposite sides, where Asin has no value.
	return 2 * earthRadiusKm * math.Asin(math.Sqrt(math.Min(1, h)))
}

// desk holds the vehicles and the orders. Its methods are safe for concurrent use; what they take and return are copies,
// so that no caller shares memory with another. Their errors are RPC errors.
type desk struct {
	now       func() time.Time
	maxOrders int

	mu       sync.RWMutex
	vehicles map[int64]*demov1.Vehicle
	orders   map[uint64]*demov1.Order
	nextID   uint64
}

func newDesk(now func() time.Time, maxOrders int) *desk {
	d := &desk{
		now: now, maxOrders: maxOrders, nextID: firstOrder,
		vehicles: make(map[int64]*demov1.Vehicle),
		orders:   make(map[uint64]*demov1.Order),
	}
	for _, v := range seedVehicles() {
		d.vehicles[v.GetId()] = v
	}
	for _, o := range seedOrders() {
		d.orders[o.GetId()] = o
		d.nextID = o.GetId() + orderStep
		if o.GetStatus() == demov1.OrderStatus_ORDER_STATUS_ASSIGNED {
			load(d.vehicles[o.GetVehicleId().GetValue()], o.GetId())
		}
	}
	return d
}

// vehicle returns one vehicle.
func (d *desk) vehicle(id int64) (*demov1.Vehicle, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	v, ok := d.vehicles[id]
	if !ok {
		return nil, noVehicle(id)
	}
	return proto.CloneOf(v), nil
}

// allVehicles returns the fleet, sorted by id.
func (d *desk) allVehicles() []*demov1.Vehicle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make([]*demov1.Vehicle, 0, len(d.vehicles))
	for _, id := range slices.Sorted(maps.Keys(d.vehicles)) {
		all = append(all, proto.CloneOf(d.vehicles[id]))
	}
	return all
}

// changeVehicle applies a change to one vehicle. A change that fails must not have touched it.
func (d *desk) changeVehicle(id int64, change func(*demov1.Vehicle) error) (*demov1.Vehicle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.vehicles[id]
	if !ok {
		return nil, noVehicle(id)
	}
	if err := change(v); err != nil {
		return nil, err
	}
	return proto.CloneOf(v), nil
}

// order returns one order.
func (d *desk) order(id uint64) (*demov1.Order, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.orders[id]
	if !ok {
		return nil, noOrder(id)
	}
	return proto.CloneOf(o), nil
}

// findOrders returns the first orders that match, sorted by id, and how many match in all.
func (d *desk) findOrders(matches func(*demov1.Order) bool, limit int) ([]*demov1.Order, int64) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var found []*demov1.Order
	var total int64
	for _, id := range slices.Sorted(maps.Keys(d.orders)) {
		o := d.orders[id]
		if !matches(o) {
			continue
		}
		total++
		if len(found) < limit {
			found = append(found, proto.CloneOf(o))
		}
	}
	return found, total
}

// place adds an order with an id and its own time.
func (d *desk) place(o *demov1.Order) (*demov1.Order, error) {
	o = proto.CloneOf(o)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.orders) >= d.maxOrders {
		return nil, bookFull(d.maxOrders)
	}
	o.Id = d.nextID
	o.Status = demov1.OrderStatus_ORDER_STATUS_PLACED
	o.PlacedAt = timestamppb.New(d.now())
	d.nextID += orderStep
	d.orders[o.GetId()] = o
	return proto.CloneOf(o), nil
}

// assign puts an order on a vehicle, and takes it off the one that it was on.
func (d *desk) assign(orderID uint64, vehicleID int64) (*demov1.Order, *demov1.Vehicle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.orders[orderID]
	if !ok {
		return nil, nil, noOrder(orderID)
	}
	v, ok := d.vehicles[vehicleID]
	if !ok {
		return nil, nil, noVehicle(vehicleID)
	}
	if err := d.mayCarry(v, o); err != nil {
		return nil, nil, err
	}
	if before, ok := d.vehicles[o.GetVehicleId().GetValue()]; ok && before != v {
		unload(before, orderID)
	}
	load(v, orderID)
	o.Status = demov1.OrderStatus_ORDER_STATUS_ASSIGNED
	o.VehicleId = wrapperspb.Int64(vehicleID)
	if o.GetExpectedDuration() == nil {
		o.ExpectedDuration = durationpb.New(defaultDelivery)
	}
	return proto.CloneOf(o), proto.CloneOf(v), nil
}

// cancel takes an order off the book and off its vehicle.
func (d *desk) cancel(id uint64) (*demov1.Order, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.orders[id]
	if !ok {
		return nil, noOrder(id)
	}
	if o.GetStatus() == demov1.OrderStatus_ORDER_STATUS_DELIVERED {
		return nil, alreadyDelivered(id)
	}
	if v, ok := d.vehicles[o.GetVehicleId().GetValue()]; ok {
		unload(v, id)
	}
	delete(d.orders, id)
	return o, nil
}

// load puts an order on board, once.
func load(v *demov1.Vehicle, order uint64) {
	if !slices.Contains(v.GetOrderIds(), order) {
		v.OrderIds = append(v.OrderIds, order)
	}
	v.Status = demov1.VehicleStatus_VEHICLE_STATUS_EN_ROUTE
}

// unload takes an order off board. Without orders, a vehicle is free.
func unload(v *demov1.Vehicle, order uint64) {
	v.OrderIds = slices.DeleteFunc(v.GetOrderIds(), func(id uint64) bool { return id == order })
	if len(v.GetOrderIds()) == 0 && v.GetStatus() == demov1.VehicleStatus_VEHICLE_STATUS_EN_ROUTE {
		v.Status = demov1.VehicleStatus_VEHICLE_STATUS_IDLE
	}
}

// lab serves outrigger.demo.v1.Lab. It has no state.
type lab struct{}

func (lab) Echo(_ context.Context, req *connect.Request[demov1.EchoRequest]) (*connect.Response[demov1.EchoResponse], error) {
	return connect.NewResponse(echo(req.Msg)), nil
}

func (lab) Relay(_ context.Context, stream *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error {
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(echo(req)); err != nil {
			return err
		}
	}
}

func echo(req *demov1.EchoRequest) *demov1.EchoResponse {
	return &demov1.EchoResponse{
		Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload(),
	}
}

func (lab) Sleep(ctx context.Context, req *connect.Request[demov1.SleepRequest]) (*connect.Response[demov1.SleepResponse], error) {
	start := time.Now()
	timer := time.NewTimer(req.Msg.GetDuration().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	return connect.NewResponse(&demov1.SleepResponse{
		Slept: durationpb.New(time.Since(start)),
		Nonce: req.Msg.GetNonce(),
	}), nil
}

// ended names the end of a context in the words of an RPC.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

func (lab) Inspect(ctx context.Context, req *connect.Request[demov1.InspectRequest]) (*connect.Response[demov1.InspectResponse], error) {
	seen := &demov1.InspectResponse{
		Metadata:   make(map[string]*demov1.MetadataValues, len(req.Header())),
		Protocol:   req.Peer().Protocol,
		HttpMethod: req.HTTPMethod(),
		Peer:       req.Peer().Addr,
	}
	for name, values := range req.Header() {
		if text := printable(values); len(text) > 0 {
			seen.Metadata[strings.ToLower(name)] = &demov1.MetadataValues{Values: text}
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		seen.TimeLeft = durationpb.New(time.Until(deadline))
	}
	res := connect.NewResponse(seen)
	setAll(res.Header(), req.Msg.GetReplyHeaders())
	setAll(res.Trailer(), req.Msg.GetReplyTrailers())
	return res, nil
}

// printable drops values that a Protobuf string cannot hold: header values may be any bytes.
func printable(values []string) []string {
	var kept []string
	for _, value := range values {
		if strings.ToValidUTF8(value, "") == value {
			kept = append(kept, value)
		}
	}
	return kept
}

func setAll(header http.Header, values map[string]string) {
	for name, value := range values {
		header.Set(name, value)
	}
}

// errorDomain is the domain of every ErrorInfo. The name is reserved for examples (RFC 2606).
const errorDomain = "lagoon-express.example"

// refuse builds an RPC error with details of google.rpc.
func refuse(code connect.Code, message string, details ...proto.Message) error {
	refusal := connect.NewError(code, wording(message))
	for _, detail := range details {
		// Marshalling a well-formed message cannot fail; were it to, the error is still worth more without the detail.
		if d, err := connect.NewErrorDetail(detail); err == nil {
			refusal.AddDetail(d)
		}
	}
	return refusal
}

// wording is an error that is nothing but its text.
type wording string

func (w wording) Error() string { return string(w) }

func noVehicle(id int64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no vehicle %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "vehicle", ResourceName: strconv.FormatInt(id, 10),
			Description: "fleet.list_vehicles shows the ids that exist",
		})
}

func noOrder(id uint64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no order %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "order", ResourceName: strconv.FormatUint(id, 10),
			Description: "fleet.find_orders shows the ids that exist; they do not survive rounding",
		})
}

func noStop(id int64) error {
	return refuse(connect.CodeNotFound, fmt.Sprintf("there is no stop %d", id),
		&errdetails.ResourceInfo{
			ResourceType: "stop", ResourceName: strconv.FormatInt(id, 10),
			Description: "fleet.get_map shows the ids that exist",
		})
}

// badField refuses one argument for a reason that no rule of the .proto file can express.
func badField(field, reason string) error {
	return refuse(connect.CodeInvalidArgument, field+": "+reason,
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: field, Description: reason},
		}})
}

// notNow refuses a call that the present state does not allow.
func notNow(reason, subject, message string, facts map[string]string) error {
	return refuse(connect.CodeFailedPrecondition, message,
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: facts},
		&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: reason, Subject: subject, Description: message},
		}})
}

func bookFull(limit int) error {
	message := fmt.Sprintf("the order book is full: it holds %d orders", limit)
	return refuse(connect.CodeResourceExhausted, message,
		&errdetails.ErrorInfo{Reason: "BOOK_FULL", Domain: errorDomain, Metadata: map[string]string{"limit": strconv.Itoa(limit)}},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: "order book", Description: message},
		}})
}

// defaultRetryDelay is what RetryInfo says when the caller does not: long enough to see that it is obeyed, and not a round
// number of seconds, so that rounding shows.
const defaultRetryDelay = 1500 * time.Millisecond

func (lab) Fail(_ context.Context, req *connect.Request[demov1.FailRequest]) (*connect.Response[demov1.FailResponse], error) {
	// FailCode has the numbers of google.rpc.Code, and so has connect.Code.
	code := connect.Code(req.Msg.GetCode())
	message := req.Msg.GetMessage()
	if message == "" {
		message = fmt.Sprintf("failed with %s, as asked for", code)
	}
	delay := req.Msg.GetRetryDelay()
	if delay == nil {
		delay = durationpb.New(defaultRetryDelay)
	}
	details := make([]proto.Message, 0, len(req.Msg.GetDetails()))
	for _, kind := range req.Msg.GetDetails() {
		if detail := failDetail(kind, delay); detail != nil {
			details = append(details, detail)
		}
	}
	return nil, refuse(code, message, details...)
}

// failDetail returns an example of a detail, or nil for a kind that does not exist.
func failDetail(kind demov1.FailDetail, delay *durationpb.Duration) proto.Message {
	switch kind {
	case demov1.FailDetail_FAIL_DETAIL_BAD_REQUEST:
		return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "parcels[0].weight_kg", Description: "a parcel of 900 kg sinks a canoe"},
			{Field: "window.not_after", Description: "yesterday is over"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_ERROR_INFO:
		return &errdetails.ErrorInfo{
			Reason: "TIDE_TOO_LOW", Domain: errorDomain,
			Metadata: map[string]string{"passage": "Needle Pass", "next_high_water": "14:20"},
		}
	case demov1.FailDetail_FAIL_DETAIL_RETRY_INFO:
		return &errdetails.RetryInfo{RetryDelay: delay}
	case demov1.FailDetail_FAIL_DETAIL_RESOURCE_INFO:
		return &errdetails.ResourceInfo{
			ResourceType: "vehicle", ResourceName: "999", Owner: "dispatch", Description: "sunk in 1987",
		}
	case demov1.FailDetail_FAIL_DETAIL_QUOTA_FAILURE:
		return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: "customer:coconut-cafe", Description: "5 of 5 free deliveries used this month"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_PRECONDITION_FAILURE:
		return &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: "TIDE", Subject: "Needle Pass", Description: "the pass needs 60 cm of water"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_HELP:
		return &errdetails.Help{Links: []*errdetails.Help_Link{
			{Description: "tide table", Url: "https://lagoon-express.example/tides"},
		}}
	case demov1.FailDetail_FAIL_DETAIL_LOCALIZED_MESSAGE:
		return &errdetails.LocalizedMessage{Locale: "fr-FR", Message: "La marée est trop basse."}
	case demov1.FailDetail_FAIL_DETAIL_REQUEST_INFO:
		return &errdetails.RequestInfo{RequestId: "lagoon-7f3a", ServingData: "desk 2"}
	case demov1.FailDetail_FAIL_DETAIL_DEBUG_INFO:
		return &errdetails.DebugInfo{
			StackEntries: []string{"dispatch.(*desk).book at desk.go:217", "dispatch.(*desk).serve at desk.go:64"},
			Detail:       "internal: tide cache miss on shard 3",
		}
	case demov1.FailDetail_FAIL_DETAIL_UNSPECIFIED:
		return nil
	default:
		return nil
	}
}
