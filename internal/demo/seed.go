// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// firstOrder is 2^53 + 1, the first whole number that a double cannot hold. Ids go up in steps of two from there, so that
// each of them is odd and changes when it is rounded.
const (
	firstOrder = 1<<53 + 1
	orderStep  = 2
)

// seedTime is when the data was seen last: six in the morning, before the first canoe leaves. It is fixed, so that answers
// can be compared with recorded ones.
func seedTime() time.Time { return time.Date(2026, time.June, 1, 6, 0, 0, 0, time.UTC) }

func stop(id int64, name string, latitude, longitude float64) *demov1.Stop {
	return &demov1.Stop{Id: id, Name: name, Position: &demov1.Position{Latitude: latitude, Longitude: longitude}}
}

// seedMap returns the atoll: islands as areas, each with its quay as the first stop.
func seedMap() *demov1.Area {
	return &demov1.Area{Name: "Hoku Atoll", Areas: []*demov1.Area{
		{
			Name:  "Motu Nui",
			Stops: []*demov1.Stop{stop(1, "Motu Nui quay", -16.5000, -151.7500)},
			Areas: []*demov1.Area{
				{Name: "Harbour", Stops: []*demov1.Stop{
					stop(2, "Fish market", -16.5012, -151.7478),
					stop(3, "Harbour master", -16.4991, -151.7489),
				}},
				{Name: "Old Town", Stops: []*demov1.Stop{
					stop(4, "Coconut Café", -16.5060, -151.7441),
					stop(5, "Banyan school", -16.5093, -151.7402),
					stop(6, "Clinic", -16.5078, -151.7467),
				}},
			},
		},
		{Name: "Motu Iti", Stops: []*demov1.Stop{
			stop(11, "Motu Iti quay", -16.4420, -151.7310),
			stop(12, "Lighthouse", -16.4371, -151.7252),
			stop(13, "Pearl farm", -16.4466, -151.7238),
		}},
		{Name: "Sandbar", Stops: []*demov1.Stop{
			stop(21, "Sandbar jetty", -16.4760, -151.7900),
			stop(22, "Research station", -16.4738, -151.7933),
		}},
	}}
}

// seedVehicles returns the fleet, without orders on board.
func seedVehicles() []*demov1.Vehicle {
	const (
		bike  = demov1.VehicleKind_VEHICLE_KIND_CARGO_BIKE
		van   = demov1.VehicleKind_VEHICLE_KIND_VAN
		canoe = demov1.VehicleKind_VEHICLE_KIND_CANOE
		drone = demov1.VehicleKind_VEHICLE_KIND_DRONE

		idle     = demov1.VehicleStatus_VEHICLE_STATUS_IDLE
		charging = demov1.VehicleStatus_VEHICLE_STATUS_CHARGING
		workshop = demov1.VehicleStatus_VEHICLE_STATUS_IN_WORKSHOP
	)
	rows := []struct {
		id                  int64
		callSign            string
		kind                demov1.VehicleKind
		status              demov1.VehicleStatus
		latitude, longitude float64
		battery             float64 // below 0: has none
		capacity            float64
		driver              string
		home, note          string
	}{
		{101, "Kingfisher", van, idle, -16.5003, -151.7495, 88, 600, "Moana", "Motu Nui", ""},
		{102, "Tern", bike, idle, -16.5058, -151.7444, 64.5, 80, "Teva", "Motu Nui", ""},
		{103, "Frigatebird", canoe, idle, -16.4790, -151.7420, -1, 220, "Hina", "Motu Nui", ""},
		{104, "Noddy", bike, charging, -16.5010, -151.7480, 12, 80, "", "Motu Nui", ""},
		{105, "Petrel", drone, idle, -16.4420, -151.7310, 91, 4, "", "Motu Iti", "needs line of sight"},
		{106, "Shearwater", canoe, idle, -16.4762, -151.7897, -1, 300, "Rangi", "Sandbar", ""},
		{107, "Booby", van, workshop, -16.4992, -151.7488, 40, 650, "", "Motu Nui", "waits for a gearbox"},
		{108, "Tropicbird", drone, idle, -16.5000, -151.7501, 37, 4, "", "Motu Nui", ""},
		{109, "Heron", bike, idle, -16.4418, -151.7312, 77, 80, "Manu", "Motu Iti", ""},
	}
	seen := timestamppb.New(seedTime())
	fleet := make([]*demov1.Vehicle, 0, len(rows))
	for _, row := range rows {
		v := &demov1.Vehicle{
			Id: row.id, CallSign: row.callSign, Kind: row.kind, Status: row.status, CapacityKg: row.capacity,
			Position: &demov1.Position{Latitude: row.latitude, Longitude: row.longitude},
			LastSeen: seen, Labels: map[string]string{"home": row.home},
		}
		if row.battery >= 0 {
			v.BatteryPercent = wrapperspb.Double(row.battery)
		}
		if row.driver != "" {
			v.Driver = &row.driver
		}
		if row.note != "" {
			v.Labels["note"] = row.note
		}
		fleet = append(fleet, v)
	}
	return fleet
}

// seedOrders returns the book, sorted by id.
func seedOrders() []*demov1.Order {
	toStop := func(id int64) *demov1.Destination {
		return &demov1.Destination{Place: &demov1.Destination_StopId{StopId: id}}
	}
	parcel := func(contents string, weight float64, cents int64, fragile bool) *demov1.Parcel {
		return &demov1.Parcel{Contents: contents, WeightKg: weight, ValueCents: cents, Fragile: fragile}
	}
	const (
		placed    = demov1.OrderStatus_ORDER_STATUS_PLACED
		assigned  = demov1.OrderStatus_ORDER_STATUS_ASSIGNED
		delivered = demov1.OrderStatus_ORDER_STATUS_DELIVERED
	)
	rows := []struct {
		customer    string
		destination *demov1.Destination
		status      demov1.OrderStatus
		vehicle     int64 // 0: none
		age         time.Duration
		expected    time.Duration
		channel     string
		parcels     []*demov1.Parcel
	}{
		{"Coconut Café", toStop(4), delivered, 102, 20 * time.Hour, 12 * time.Minute, "phone", []*demov1.Parcel{parcel("espresso beans", 12, 18_000, false), parcel("oat milk", 9.5, 3_400, false)}},
		{"Banyan school", toStop(5), assigned, 102, 3 * time.Hour, 15 * time.Minute, "web", []*demov1.Parcel{parcel("globe", 2.2, 4_900, true), parcel("chalk", 1, 600, false)}},
		{"Lighthouse keeper", toStop(12), assigned, 103, 2 * time.Hour, 55 * time.Minute, "radio", []*demov1.Parcel{parcel("Fresnel lens segment", 31, 1_250_000, true), parcel("brass polish", 0.8, 900, false), parcel("letters", 0.3, 0, false)}},
		{"Clinic", toStop(6), placed, 0, 40 * time.Minute, 10 * time.Minute, "phone", []*demov1.Parcel{parcel("vaccines, keep cold", 3.5, 96_000, true)}},
		{"Research station", toStop(22), placed, 0, 35 * time.Minute, 70 * time.Minute, "web", []*demov1.Parcel{parcel("sediment corer", 48, 310_000, false), parcel("sample jars", 14, 5_200, true)}},
		{"Yacht Sirocco", &demov1.Destination{
			Place:  &demov1.Destination_Position{Position: &demov1.Position{Latitude: -16.4655, Longitude: -151.7605}},
			HandTo: new("the one with the red hat"),
		}, placed, 0, 30 * time.Minute, 40 * time.Minute, "radio", []*demov1.Parcel{parcel("spare impeller", 0.9, 7_800, false), parcel("mangoes", 4, 1_200, false)}},
		{"Auntie Vai", &demov1.Destination{Place: &demov1.Destination_Address{Address: &demov1.Address{
			Lines: []string{"Blue house behind the banyan", "mind the dog"}, Island: "Motu Nui",
		}}}, placed, 0, 25 * time.Minute, 20 * time.Minute, "phone", []*demov1.Parcel{parcel("rocking chair", 11, 23_000, false)}},
		{"Pearl farm", toStop(13), delivered, 106, 44 * time.Hour, 80 * time.Minute, "web", []*demov1.Parcel{parcel("rope, 200 m", 36, 14_500, false)}},
		{"Fish market", toStop(2), placed, 0, 5 * time.Minute, 15 * time.Minute, "phone", []*demov1.Parcel{parcel("ice", 180, 2_000, false)}},
	}
	book := make([]*demov1.Order, 0, len(rows))
	for i, row := range rows {
		o := &demov1.Order{
			Id: firstOrder + uint64(i)*orderStep, Customer: row.customer, Destination: row.destination, Parcels: row.parcels,
			Status: row.status, PlacedAt: timestamppb.New(seedTime().Add(-row.age)),
			ExpectedDuration: durationpb.New(row.expected), Labels: map[string]string{"channel": row.channel},
		}
		if row.vehicle != 0 {
			o.VehicleId = wrapperspb.Int64(row.vehicle)
		}
		book = append(book, o)
	}
	return book
}
