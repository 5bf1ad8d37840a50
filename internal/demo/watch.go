// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"math"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

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

// update tells where a vehicle is in a round. One that is under way drifts along a heading of its own; watching it does not
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
