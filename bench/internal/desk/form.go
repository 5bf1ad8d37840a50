// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
)

// Form is the request and the answer as the struct that an engineer writes for a typed tool: plain Go types, from which
// the SDKs derive schemas. Names are those of ProtoJSON.
type Form struct {
	Nonce  string  `json:"nonce"            jsonschema:"A text by which the caller knows its answer."`
	Number int64   `json:"number"           jsonschema:"Any signed 64-bit number."`
	Orders []Order `json:"orders,omitempty" jsonschema:"A page of orders."`
}

// Order is one order.
type Order struct {
	ID          uint64            `json:"id"                    jsonschema:"Its number."`
	Customer    string            `json:"customer"              jsonschema:"Who ordered."`
	Status      string            `json:"status,omitempty"      jsonschema:"Its status: STATUS_PLACED, STATUS_ASSIGNED or STATUS_DELIVERED."`
	Destination *Position         `json:"destination,omitempty" jsonschema:"Where it goes."`
	Parcels     []Parcel          `json:"parcels,omitempty"     jsonschema:"What it consists of."`
	PlacedAt    *time.Time        `json:"placedAt,omitempty"    jsonschema:"When it was placed."`
	Labels      map[string]string `json:"labels,omitempty"      jsonschema:"Words for people who sort."`
}

// Position is a point on the globe, in degrees.
type Position struct {
	Latitude  float64 `json:"latitude"  jsonschema:"North of the equator."`
	Longitude float64 `json:"longitude" jsonschema:"East of Greenwich."`
}

// Parcel is one parcel.
type Parcel struct {
	Contents   string  `json:"contents"          jsonschema:"What is in it."`
	WeightKg   float64 `json:"weightKg"          jsonschema:"Its weight."`
	ValueCents int64   `json:"valueCents"        jsonschema:"Its value."`
	Fragile    bool    `json:"fragile,omitempty" jsonschema:"Whether it breaks."`
}

// Request is the form as a message; an unknown status is an error.
func (f *Form) Request() (*benchv1.EchoRequest, error) {
	out := &benchv1.EchoRequest{Nonce: f.Nonce, Number: f.Number, Orders: make([]*benchv1.Order, len(f.Orders))}
	for i := range f.Orders {
		var err error
		if out.Orders[i], err = f.Orders[i].message(); err != nil {
			return nil, fmt.Errorf("orders[%d]: %w", i, err)
		}
	}
	return out, nil
}

func (o *Order) message() (*benchv1.Order, error) {
	out := &benchv1.Order{Id: o.ID, Customer: o.Customer, Labels: o.Labels, Parcels: make([]*benchv1.Parcel, len(o.Parcels))}
	if o.Status != "" {
		status, ok := benchv1.Status_value[o.Status]
		if !ok {
			return nil, fmt.Errorf("status: unknown value %q", o.Status)
		}
		out.Status = benchv1.Status(status)
	}
	if o.Destination != nil {
		out.Destination = &benchv1.Position{Latitude: o.Destination.Latitude, Longitude: o.Destination.Longitude}
	}
	for i, p := range o.Parcels {
		out.Parcels[i] = &benchv1.Parcel{Contents: p.Contents, WeightKg: p.WeightKg, ValueCents: p.ValueCents, Fragile: p.Fragile}
	}
	if o.PlacedAt != nil {
		out.PlacedAt = timestamppb.New(*o.PlacedAt)
	}
	return out, nil
}

// FormOf is an answer as a form.
func FormOf(m *benchv1.EchoResponse) *Form {
	return newForm(m.GetNonce(), m.GetNumber(), m.GetOrders())
}

func requestForm(m *benchv1.EchoRequest) *Form {
	return newForm(m.GetNonce(), m.GetNumber(), m.GetOrders())
}

func newForm(nonce string, number int64, orders []*benchv1.Order) *Form {
	out := &Form{Nonce: nonce, Number: number, Orders: make([]Order, len(orders))}
	for i, o := range orders {
		form := &out.Orders[i]
		*form = Order{ID: o.GetId(), Customer: o.GetCustomer(), Labels: o.GetLabels(), Parcels: make([]Parcel, len(o.GetParcels()))}
		if o.GetStatus() != benchv1.Status_STATUS_UNSPECIFIED {
			form.Status = o.GetStatus().String()
		}
		if d := o.GetDestination(); d != nil {
			form.Destination = &Position{Latitude: d.GetLatitude(), Longitude: d.GetLongitude()}
		}
		for j, p := range o.GetParcels() {
			form.Parcels[j] = Parcel{Contents: p.GetContents(), WeightKg: p.GetWeightKg(), ValueCents: p.GetValueCents(), Fragile: p.GetFragile()}
		}
		if o.GetPlacedAt() != nil {
			at := o.GetPlacedAt().AsTime()
			form.PlacedAt = &at
		}
	}
	return out
}
