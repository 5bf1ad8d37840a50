// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"testing"
)

func BenchmarkCall(b *testing.B) {
	p := servePeer(b, echoMux(), clearProtocols(true, true))
	s := serveSocket(b, echoMux(), clearProtocols(true, true))
	small := bytes.Repeat([]byte("x"), 100)
	for _, bc := range []struct{ name, target string }{
		{"gRPC/h2c", p.as("grpc")},
		{"gRPC/balanced", p.as("dns+grpc")},
		{"gRPC/unix", s.as("grpc+unix")},
		{"Connect/http1", p.as("connect+http")},
		{"Connect/unix", s.as("connect+unix")},
		{"gRPCWeb/http1", p.as("grpcweb+http")},
	} {
		c := newClient(b, bc.target, Options{})
		call := func(b *testing.B) {
			if _, err := c.Call(b.Context(), echoProcedure, small, nil); err != nil {
				b.Error(err)
			}
		}
		b.Run(bc.name+"/one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b)
			}
		})
		b.Run(bc.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b)
				}
			})
		})
	}
}

// BenchmarkStream streams 1,000 messages of 100 bytes.
func BenchmarkStream(b *testing.B) {
	message := bytes.Repeat([]byte("x"), 100)
	p := serveStream(b, func(_ context.Context, _ *streamRequest, out *streamSender) error {
		for range 1000 {
			if err := send(out, message); err != nil {
				return err
			}
		}
		return nil
	})
	for _, scheme := range allSchemes() {
		c := newClient(b, p.as(scheme), Options{})
		b.Run(scheme, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Stream(b.Context(), countProcedure, nil, nil, func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
