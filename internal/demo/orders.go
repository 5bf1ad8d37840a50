// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// defaultDelivery is what a delivery of an order without a plan of its own is expected to take.
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
