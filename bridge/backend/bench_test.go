// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"testing"
)

func BenchmarkCall(b *testing.B) {
	p := servePeer(b, echoMux(), clearProtocols(true, true))
	s := serveSocket(b, echoMux(), clearProtocols(true, true))
	small := bytes.Repeat([]byte("x"), 100)
	for _, bc := range []struct{ name, target string }{
		{"gRPC/h2c", p.as("grpc")},
		{"gRPC/unix", s.as("grpc+unix")},
		{"Connect/http1", p.as("connect+http")},
		{"Connect/unix", s.as("connect+unix")},
		{"gRPCWeb/http1", p.as("grpcweb+http")},
	} {
		c := newClient(b, bc.target, Options{})
		m, err := c.Method(echoProcedure, MethodOptions{})
		if err != nil {
			b.Fatal(err)
		}
		call := func(b *testing.B) {
			if _, err := m.Call(b.Context(), small, nil); err != nil {
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
