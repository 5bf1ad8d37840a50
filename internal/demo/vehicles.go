// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

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
