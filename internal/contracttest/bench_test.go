// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

const benchRequest = `{"jsonrpc":"2.0","id":"01980f6e-7c1a-7b3e-9a51-0c6d0f6f1d2e","method":"tools/call","params":{"name":"harbour.moor","arguments":{"length":12,"beam":4}}}`

// BenchmarkValidateMessageEnvelope is held to the contract's 1 ms.
func BenchmarkValidateMessageEnvelope(b *testing.B) {
	raw := []byte(benchRequest)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := contracttest.ValidateMessageEnvelope(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEnvelopeBySchema is what the same costs through the schema.
func BenchmarkEnvelopeBySchema(b *testing.B) {
	schemas, err := contracttest.New(nil, contracttest.Options{}).LoadEnvelope()
	if err != nil {
		b.Fatal(err)
	}
	raw := []byte(benchRequest)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := schemas.Of(jsonrpc.KindRequest).Validate(raw); err != nil || found != nil {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkLoadToolIO is held to the contract's 1 ms for one schema: warm, as
// every call but the first of a tool, and cold, compilation included.
func BenchmarkLoadToolIO(b *testing.B) {
	c := harbour(b, "length", "beam", "draught")
	b.Run("warm", func(b *testing.B) {
		r := contracttest.Of(c)
		b.ReportAllocs()
		for b.Loop() {
			r.Load(b, "harbour.moor")
		}
	})
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			contracttest.Of(c).Load(b, "harbour.moor")
		}
	})
	b.Run("warm, contended", func(b *testing.B) {
		r := contracttest.Of(c)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := r.LoadToolIO("harbour.moor"); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkValidateIO(b *testing.B) {
	io := contracttest.Of(harbour(b, "length", "beam", "draught")).Load(b, "harbour.moor")
	doc := []byte(`{"tool":"harbour.moor","input":{"length":12,"beam":"4"},"output":{"berth":"A 7"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := io.ValidateIO(doc); err != nil {
			b.Fatal(err)
		}
	}
}
