// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// BenchmarkUnary is one unary call without its sockets: what the handler and the pipeline cost, with a backend that answers
// at once.
func BenchmarkUnary(b *testing.B) {
	service := echoing(b)
	handler := service.Root(service.PassThrough(service.NotFound()))
	call := marshal(b, toolCall("lab.echo", `{"nonce":"n","signed":"-1"}`))
	for name, of := range map[string]struct {
		path, kind string
		body       []byte
	}{
		"gRPC":         {callPath, "application/grpc", prefixed(0, call)},
		"typed gRPC":   {echoPath, "application/grpc", prefixed(0, marshal(b, &demov1.EchoRequest{Nonce: "n"}))},
		"Connect":      {callPath, "application/proto", call},
		"Connect JSON": {callPath, "application/json", []byte(`{"tool_name":"lab.echo","arguments":{"nonce":"n","signed":"-1"}}`)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, of.path, bytes.NewReader(of.body))
				r.Header.Set("Content-Type", of.kind)
				r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK || w.Body.Len() < 5 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
