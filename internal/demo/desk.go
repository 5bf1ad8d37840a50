// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

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

// place adds an order with an id and a time of its own.
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
