// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		server, err := demo.Start(context.Background(), demo.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := server.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	server, err := demo.Start(context.Background(), demo.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	client := demov1connect.NewLabClient(&http.Client{Transport: transport}, server.URL(), connect.WithGRPC())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Echo(context.Background(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n", Signed: -1, Unsigned: 1})); err != nil {
			b.Fatal(err)
		}
	}
}
