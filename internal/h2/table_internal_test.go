// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestMetadataOfOneCallStaysOutOfTheTable sends calls that differ in their trace context alone. If that went into the table of the
// connection, it would push out the path and what else repeats, which then has to be sent in full.
func TestMetadataOfOneCallStaysOutOfTheTable(t *testing.T) {
	t.Parallel()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	size := func(metadata http.Header) int {
		block.Reset()
		r := Request{
			Scheme: "http", Authority: "orders.example:50051", Path: "/shop.orders.v1.OrderService/GetOrder", UserAgent: "outrigger", AcceptGzip: true,
			Metadata: metadata,
		}
		r.encode(enc)
		return block.Len()
	}
	size(nil) // fills the table
	alone := size(nil)
	for _, name := range []string{"Traceparent", "Tracestate", "Baggage", "B3", "X-Request-Id", "Idempotency-Key"} {
		for n := range 300 {
			value := fmt.Sprintf("00-%032x-%016x-01", n+1, n+1)
			// A literal: one byte, the lengths, the name and the value (RFC 7541, section 6.2.3).
			if got, most := size(http.Header{name: {value}}), alone+3+len(name)+len(value); got > most {
				t.Fatalf("call %d with %s: %d bytes of headers, want at most %d", n, name, got, most)
			}
		}
	}
	if got := size(nil); got != alone {
		t.Errorf("%d bytes of headers afterwards, %d before", got, alone)
	}
}

// TestALiteralIsAFieldThatNoTableKeeps: another reader finds the field behind those of the encoder, and its table is as it was.
func TestALiteralIsAFieldThatNoTableKeeps(t *testing.T) {
	t.Parallel()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	dec := hpack.NewDecoder(4096, nil)
	want := fmt.Sprintf("00-%032x-%016x-01", 1, 2)
	for _, parent := range []string{want, "", want, want} {
		block.Reset()
		r := Request{Scheme: "http", Authority: "orders.example:50051", Path: "/shop.orders.v1.OrderService/GetOrder", UserAgent: "outrigger"}
		r.encode(enc)
		if parent != "" {
			appendLiteral(&block, traceParent, parent)
		}
		fields, err := dec.DecodeFull(block.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		last := fields[len(fields)-1]
		if parent != "" && (last.Name != "traceparent" || last.Value != parent || !last.Sensitive) {
			t.Errorf("the last field is %+v, want traceparent %s, which is never indexed", last, parent)
		}
		if parent == "" && last.Name == "traceparent" {
			t.Errorf("a request without trace context has %+v", last)
		}
	}
}
