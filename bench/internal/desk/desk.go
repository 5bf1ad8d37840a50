// SPDX-License-Identifier: Apache-2.0

// Package desk is the service that the end-to-end benchmark calls, and what is sent to it: pages of orders with nested
// messages, numbers, times, enums and maps, as usual APIs have them. A [Page] is safe for concurrent use.
package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
)

// Names of the one tool. MCP shows it without a dot; the hand-written servers give theirs the same name.
const (
	CanonicalTool = "desk.echo"
	MCPTool       = "desk_echo"
)

// Server gives back what it gets. It copies nothing, so that what is measured is what is before it.
type Server struct {
	benchv1.UnimplementedDeskServer
}

// Echo answers with the request's own parts.
func (Server) Echo(_ context.Context, in *benchv1.EchoRequest) (*benchv1.EchoResponse, error) {
	return &benchv1.EchoResponse{Nonce: in.GetNonce(), Number: in.GetNumber(), Orders: in.GetOrders()}, nil
}

// number goes with every call. It is below 2^53, because servers that pass JSON numbers through doubles are measured
// too; whether they lose digits above is looked at apart from the figures.
const number = 4_503_599_627_370_495

// Page is one size of what is sent: a number of orders.
type Page struct {
	orders        []*benchv1.Order
	before, after []byte
}

// Small is a page with one plain order, an id and a few fields: 167 bytes of JSON.
func Small() *Page { return newPage([]*benchv1.Order{plain()}) }

// Kilobyte is a page of two full orders and a plain one: 1 KB of JSON.
func Kilobyte() *Page { return newPage(append(full(2), plain())) }

// Medium is a page of ten full orders: 4.2 KB of JSON.
func Medium() *Page { return newPage(full(10)) }

// Large is a page of many full orders: 256 KB of JSON.
func Large() *Page { return newPage(full(626)) }

// Orders is a page of n full orders, about 410 bytes of JSON each.
func Orders(n int) *Page { return newPage(full(n)) }

func plain() *benchv1.Order {
	return &benchv1.Order{Id: 1_000_001, Customer: "Clinic of the eastern islands, ward 3", Status: benchv1.Status_STATUS_PLACED}
}

// full makes n orders with all that they can hold, about 410 bytes of JSON each.
func full(n int) []*benchv1.Order {
	start := time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)
	orders := make([]*benchv1.Order, 0, n)
	for i := range n {
		orders = append(orders, &benchv1.Order{
			Id: 1_000_001 + uint64(i), Customer: fmt.Sprintf("Customer number %04d of the eastern atoll", i), Status: benchv1.Status_STATUS_ASSIGNED,
			Destination: &benchv1.Position{Latitude: -17.5 + float64(i)/1024, Longitude: 177.25 + float64(i)/1024},
			Parcels: []*benchv1.Parcel{
				{Contents: `mangoes and "soap"`, WeightKg: 4.5, ValueCents: int64(1200 + i), Fragile: true},
				{Contents: "spare parts of a pump", WeightKg: 12.25, ValueCents: int64(89900 + i)},
			},
			PlacedAt: timestamppb.New(start.Add(time.Duration(i) * 17 * time.Minute)),
			Labels:   map[string]string{"priority": "high", "zone": "north"},
		})
	}
	return orders
}

// hole is where a nonce goes when the text around it is made.
const hole = "0nonce0"

// newPage panics where the orders cannot be written as JSON: they are made here.
func newPage(orders []*benchv1.Order) *Page {
	p := &Page{orders: orders}
	text, err := Arguments(&benchv1.EchoRequest{Nonce: hole, Number: number, Orders: orders})
	if err == nil {
		var ok bool
		if p.before, p.after, ok = bytes.Cut(text, []byte(hole)); ok {
			return p
		}
	}
	panic(fmt.Sprintf("orders as JSON: %v", err)) //nolint:forbidigo // constants of this file
}

// Arguments are a request as the JSON that every server here reads: 64-bit numbers are JSON numbers, because the structs
// of a hand-written server have integers there, and ProtoJSON takes them too.
func Arguments(in *benchv1.EchoRequest) ([]byte, error) {
	return json.Marshal(requestForm(in))
}

// Tool names what is called, canonically and in MCP.
func (p *Page) Tool() (canonical, mcp string) { return CanonicalTool, MCPTool }

// Method is the RPC behind it.
func (p *Page) Method() string { return benchv1.Desk_Echo_FullMethodName }

// Arguments cuts the JSON of the arguments at the nonce.
func (p *Page) Arguments() (before, after []byte) { return p.before, p.after }

// Request is the same as a message.
func (p *Page) Request(nonce []byte) proto.Message {
	return &benchv1.EchoRequest{Nonce: string(nonce), Number: number, Orders: p.orders}
}

// Response is an empty answer.
func (p *Page) Response() proto.Message { return new(benchv1.EchoResponse) }

// Check tells whether a message is the answer to a nonce. It compares all of it where whole is set, and else the nonce,
// the number and how many orders there are: a comparison of every order of every answer would make the load generator
// the larger part of what is measured.
func (p *Page) Check(nonce []byte, got proto.Message, whole bool) bool {
	m, ok := got.(*benchv1.EchoResponse)
	if !ok || m.GetNonce() != string(nonce) || m.GetNumber() != number || len(m.GetOrders()) != len(p.orders) {
		return false
	}
	return !whole || proto.Equal(m, &benchv1.EchoResponse{Nonce: string(nonce), Number: number, Orders: p.orders})
}

// CheckJSON tells whether JSON text is the answer to a nonce, whole.
func (p *Page) CheckJSON(nonce, doc []byte) bool {
	var got benchv1.EchoResponse
	return protojson.Unmarshal(doc, &got) == nil && p.Check(nonce, &got, true)
}
