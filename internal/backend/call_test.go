// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCallOverEveryProtocol(t *testing.T) {
	t.Parallel()
	p := servePeer(t, echoMux(), clearProtocols(true, true))
	s := serveSocket(t, echoMux(), clearProtocols(true, true))
	for _, tc := range []struct {
		target string
		want   Protocol
	}{
		{p.as("grpc"), ProtocolGRPC},
		{p.as("connect+http"), ProtocolConnect},
		{p.as("grpcweb+http"), ProtocolGRPCWeb},
		{p.as("http"), ProtocolGRPC},
		{s.as("unix"), ProtocolGRPC},
		{s.as("grpc+unix"), ProtocolGRPC},
		{s.as("connect+unix"), ProtocolConnect},
		{s.as("grpcweb+unix"), ProtocolGRPCWeb},
	} {
		t.Run(tc.target[:8], func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tc.target, Options{})
			in := []byte("\x08\x96\x01\x00\xff")
			got, err := c.Call(t.Context(), echoProcedure, in, http.Header{"X-One": {"1", "2"}})
			if err != nil {
				t.Fatal(err)
			}
			want := &Answer{Body: in, Header: http.Header{"X-One": {"1", "2"}}, Trailer: http.Header{"X-Tail": {"end"}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if c.Protocol() != tc.want {
				t.Errorf("protocol %v, want %v", c.Protocol(), tc.want)
			}
			empty, err := c.Call(t.Context(), echoProcedure, nil, nil)
			if err != nil || len(empty.Body) != 0 {
				t.Errorf("empty message: %v, %v", empty, err)
			}
		})
	}
}
