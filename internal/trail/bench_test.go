// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"testing"
)

func benchmark(b *testing.B, o RecordOptions, params, result []byte, failed bool) {
	b.Helper()
	o.Dir = b.TempDir()
	r, err := OpenRecord(o)
	if err != nil {
		b.Fatal(err)
	}
	in := Arrival{RequestID: json.RawMessage(`"0197a1c2-6f2e-7c3a-9b1d-5e4f3a2b1c0d"`), Transport: "http", Route: "/rpc", Method: "tools/call", Params: params}
	out := Outcome{OK: true, HTTPStatus: 200, Result: result}
	if failed {
		out = Outcome{Error: json.RawMessage(inputError), HTTPStatus: 422, Code: -32602}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Begin(in).End(out)
		}
	})
	b.StopTimer()
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.Stats().Dropped)/float64(b.N), "dropped/op")
}

// Millions of lines a second are more than a starved writer can take, so some
// are dropped here.
func BenchmarkCall(b *testing.B)      { benchmark(b, RecordOptions{}, nil, nil, false) }
func BenchmarkCallError(b *testing.B) { benchmark(b, RecordOptions{}, nil, nil, true) }

// A deterministic run waits for the writer, so this is the price of a line up to
// and with the disk.
func BenchmarkCallAllWritten(b *testing.B) {
	benchmark(b, RecordOptions{Deterministic: true}, nil, nil, false)
}

func BenchmarkCallPayloads(b *testing.B) {
	benchmark(b, RecordOptions{Payloads: true},
		[]byte(`{"name":"shop.order","arguments":{"item":"sku-1","count":3,"token":"t","address":{"street":"Main Street 1","city":"X"}}}`),
		[]byte(`{"content":[{"type":"text","text":"{\"order\":\"o-1\",\"token\":\"t\"}"}],"structuredContent":{"order":"o-1","token":"t"},"isError":false}`), false)
}

func BenchmarkOff(b *testing.B) {
	var r *Run
	in := Arrival{Method: "tools/call"}
	for b.Loop() {
		r.Begin(in).End(Outcome{OK: true})
	}
}
