// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func allSchemes() []string { return []string{"grpc", "connect+http", "grpcweb+http"} }

// Every code arrives as it was sent, with message, details and metadata.
func TestStatusArrives(t *testing.T) {
	t.Parallel()
	info := &errdetails.ErrorInfo{Reason: "STOCK_EMPTY", Domain: "shop.example", Metadata: map[string]string{"sku": "7"}}
	retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(1500000000)}
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Private", Value: []byte("\x0a\x03abc\xff")}
	message := "plain, ünïcode\nand 100%"

	mux := http.NewServeMux()
	unary(mux, echoProcedure, func(_ context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		err := connect.NewError(connect.Code((*req.Msg)[0]), errors.New(message))
		for _, m := range []proto.Message{info, retry, unknown} {
			d, detailErr := connect.NewErrorDetail(m)
			if detailErr != nil {
				return nil, detailErr
			}
			err.AddDetail(d)
		}
		err.Meta().Set("X-Meta", "kept")
		return nil, err
	})
	p := servePeer(t, mux, clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, p.as(scheme), Options{})
			for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
				_, err := c.Call(t.Context(), echoProcedure, []byte{byte(code)}, nil)
				e := failure(t, err)
				if e.Kind != KindStatus || e.Code != code || e.PeerCode != code.String() || e.Message != message || !e.Sent {
					t.Errorf("%v: got %+v", code, e)
				}
				// Unary Connect sends the metadata of an error as headers.
				want := [2]http.Header{nil, {"X-Meta": {"kept"}}}
				if strings.HasPrefix(scheme, "connect") {
					want[0], want[1] = want[1], nil
				}
				if diff := cmp.Diff(want, [2]http.Header{e.Header, e.Trailer}); diff != "" {
					t.Errorf("%v: header and trailer (-want +got):\n%s", code, diff)
				}
				if len(e.Details) != 3 {
					t.Fatalf("%v: %d details", code, len(e.Details))
				}
				for i, want := range []proto.Message{info, retry} {
					got, err := e.Details[i].UnmarshalNew()
					if err != nil || !proto.Equal(got, want) {
						t.Errorf("%v: detail %d: got %v, %v; want %v", code, i, got, err, want)
					}
				}
				if !proto.Equal(e.Details[2], unknown) {
					t.Errorf("%v: unknown detail: got %v, want %v", code, e.Details[2], unknown)
				}
			}
		})
	}
}

// A number that is no code is the service's failure all the same, and neither it
// nor 0 goes further as a code.
func TestForeignCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, status, peerCode string
	}{
		{name: "17", status: "17", peerCode: "code_17"},
		{name: "largest", status: "4294967295", peerCode: "code_4294967295"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := h2peer(t, func(fr *http2.Framer, _ net.Conn, stream uint32, _ int) bool {
				return sendHeaders(fr, stream, true, ":status", "200", "content-type", "application/grpc", "grpc-status", tc.status, "grpc-message", "odd")
			})
			c := newClient(t, p.as("grpc"), Options{})
			_, err := c.Call(t.Context(), echoProcedure, nil, nil)
			e := failure(t, err)
			if e.Kind != KindStatus || e.Code != connect.CodeUnknown || e.PeerCode != tc.peerCode {
				t.Errorf("got %v, code %v, peer code %q", err, e.Code, e.PeerCode)
			}
		})
	}
	t.Run("Connect", func(t *testing.T) {
		t.Parallel()
		p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"code":"short_and_stout","message":"odd"}`))
		}), clearProtocols(true, true))
		c := newClient(t, p.as("connect+http"), Options{})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeUnknown || e.Message != "odd" || e.HTTPStatus != http.StatusTeapot {
			t.Errorf("got %+v", e)
		}
	})
}
