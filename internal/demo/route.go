// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

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
