// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// wireInput is one request of a typed caller as no Protobuf library would write it.
type wireInput struct {
	row, name string
	ask       ask
	// want is the canonical code; served where Protobuf itself says what it means.
	want, path string
}

// wireInputs are what the rows about arguments are in the encoding of Protobuf. A
// name of a field cannot be there, nor a number that its type does not hold.
func wireInputs() []wireInput {
	echo := func(wire []byte) ask { return ask{procedure: procEcho, args: string(wire)} }
	list := func(wire []byte) ask {
		return ask{procedure: "/outrigger.demo.v1.Fleet/ListVehicles", args: string(wire)}
	}
	find := func(wire []byte) ask {
		return ask{procedure: "/outrigger.demo.v1.Fleet/FindOrders", args: string(wire)}
	}
	// Fields of EchoRequest: 1 nonce, 2 signed, 4 payload; of ListVehiclesRequest: 3 page_size.
	text := func(n protowire.Number, content string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), content)
	}
	tag := func(n protowire.Number, w protowire.Type, rest ...byte) []byte {
		return append(protowire.AppendTag(nil, n, w), rest...)
	}
	good := text(1, "a")
	long := bytes.Repeat([]byte{0xff}, 1<<20)
	groups := bytes.Repeat(tag(9, protowire.StartGroupType), 1<<20)
	return []wireInput{
		{row: rowJSON, name: "cut in a string", ask: echo(text(1, "abc")[:3]), want: badInput},
		{row: rowJSON, name: "cut in a varint", ask: echo(tag(2, protowire.VarintType, 0x80)), want: badInput},
		{row: rowJSON, name: "cut behind a tag", ask: echo(tag(2, protowire.VarintType)), want: badInput},
		{row: rowJSON, name: "a length of 2^63-1", ask: echo(tag(1, protowire.BytesType, protowire.AppendVarint(nil, math.MaxInt64)...)), want: badInput},
		{row: rowJSON, name: "a varint of 11 bytes", ask: echo(tag(2, protowire.VarintType, append(bytes.Repeat([]byte{0x80}, 10), 1)...)), want: badInput},
		{row: rowJSON, name: "a varint of 1 MB", ask: echo(tag(2, protowire.VarintType, long...)), want: badInput},
		{row: rowJSON, name: "field number 0", ask: echo([]byte{0x02, 0x00}), want: badInput},
		{row: rowJSON, name: "wire type 7", ask: echo([]byte{0x0f}), want: badInput},
		{row: rowJSON, name: "the end of a group that did not begin", ask: echo(tag(9, protowire.EndGroupType)), want: badInput},
		{row: rowJSON, name: "JSON instead", ask: echo([]byte(`{"nonce":"a"}`)), want: badInput},
		{row: rowJSON, name: "1 MB of garbage", ask: echo(long), want: badInput},
		{row: rowJSON, name: "invalid UTF-8", ask: echo(text(1, "\xff")), want: badInput},
		{row: rowJSON, name: "a surrogate in UTF-8", ask: echo(text(1, "\xed\xa0\x80")), want: badInput},
		{row: rowJSON, name: "good, and more behind it", ask: echo(append(bytes.Clone(good), 0xff)), want: badInput},
		{row: rowJSON, name: "1 MB of groups in groups", ask: echo(groups), want: badInput},
		{row: rowJSON, name: "messages in messages, 100,000 deep", ask: find(filterOf(100_000)), want: badInput},
		{row: rowJSON, name: "messages in messages, 65 deep", ask: find(filterOf(64)), want: badInput},
		{row: rowJSON, name: "a field twice", ask: echo(append(text(1, "first"), good...)), want: served},

		{row: rowNumbers, name: "a rule on an int32", ask: list(tag(3, protowire.VarintType, 101)), want: badInput, path: "/page"},
		{row: rowNumbers, name: "an int32 of 64 bits", ask: list(tag(3, protowire.VarintType, protowire.AppendVarint(nil, 1<<40|101)...)), want: badInput, path: "/page"},
		{row: rowNumbers, name: "a number for a string", ask: echo(tag(1, protowire.VarintType, 7)), want: served},
		{row: rowNumbers, name: "an unknown field", ask: echo(append(text(99, "b"), good...)), want: served},
		{row: rowNumbers, name: "1 MB of unknown fields", ask: echo(bytes.Repeat(tag(99, protowire.VarintType, 1), 1<<20/3)), want: served},
		{row: rowNumbers, name: "one string of 1 MB", ask: echo(text(1, strings.Repeat("a", 1<<20))), want: badInput, path: "/nonce"},
		{row: rowNumbers, name: "a broken rule deep inside", ask: find(deepRule()), want: badInput, path: "/filter/all/filters/0/not/vehicle"},

		{row: rowInjection, name: "line ends in a value", ask: echo(text(1, "a\r\nx-evil: 1\r\n\r\n")), want: served},
	}
}

// largeWire is how long inputs are, in bytes, that go to one entry point only.
const largeWire = 256 << 10

// filterOf is a FindOrdersRequest whose condition is the negation of one that is
// the negation of one, n times.
func filterOf(n int) []byte {
	const notField, filterField = 6, 1
	// Written from the inside out, at the end of a buffer that is large enough: each
	// level is a tag and a length of at most four bytes.
	const head = 5
	out := make([]byte, head*(n+2))
	at := len(out)
	put := func(field protowire.Number) {
		h := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(len(out)-at))
		at -= len(h)
		copy(out[at:], h)
	}
	for range n {
		put(notField)
	}
	put(filterField)
	return out[at:]
}

// deepRule is a request with a number below its minimum, four messages down.
func deepRule() []byte {
	below := &demov1.OrderFilter{Condition: &demov1.OrderFilter_Not{Not: &demov1.OrderFilter{Condition: &demov1.OrderFilter_VehicleId{VehicleId: -1}}}}
	raw, err := proto.Marshal(&demov1.FindOrdersRequest{Filter: &demov1.OrderFilter{Condition: &demov1.OrderFilter_All{
		All: &demov1.OrderFilterList{Filters: []*demov1.OrderFilter{below}},
	}}})
	if err != nil {
		return nil // which is no broken rule, so that the row fails
	}
	return raw
}

// TestBadWireAtEveryTypedEntryPoint sends bytes that are no message, or one that no
// library writes, in place of typed requests: what Protobuf does not define is
// refused, what it defines is served, and the entry point serves on.
func TestBadWireAtEveryTypedEntryPoint(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	all := typedWireEntryPoints(t, server)
	t.Run("doors", func(t *testing.T) {
		for _, d := range all {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				for _, in := range wireInputs() {
					if len(in.ask.args) >= largeWire && d.name != "gRPC" {
						continue // one protocol is enough for what takes seconds
					}
					start := time.Now()
					got := d.ask(t, in.ask)
					if took := time.Since(start); took > hostileTime() {
						t.Errorf("%s: took %v", in.name, took)
					}
					in.judge(t, got)
				}
				d.isWell(t, ask{procedure: procEcho})
			})
		}
	})
	isQuiet(t, server.AdminURL("/metrics"))
}

// judge compares an answer with what the table says.
func (in wireInput) judge(t *testing.T, got caller.Answer) {
	t.Helper()
	switch {
	case in.want == served:
		if got.Err != nil || got.Fault != nil {
			t.Errorf("%s, %s: %.200v; %v, want an answer", in.row, in.name, got.Err, got.Fault)
		}
	case got.Fault == nil || got.Fault.Code != in.want || got.Fault.RPC != "invalid_argument":
		t.Errorf("%s, %s: %.200v; %v, want %s", in.row, in.name, got.Err, got.Fault, in.want)
	case in.path != "" && !strings.HasPrefix(firstPath(t, got.Fault), in.path):
		t.Errorf("%s, %s: the error points at %.200q, want %q", in.row, in.name, firstPath(t, got.Fault), in.path)
	}
}
