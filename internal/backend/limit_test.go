// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// sized answers with as many bytes as the request says.
func sizedMux(opts ...connect.HandlerOption) *http.ServeMux {
	mux := http.NewServeMux()
	opts = append(opts, connect.WithCodec(rawCodec{}))
	mux.Handle(echoProcedure, connect.NewUnaryHandler(echoProcedure,
		func(_ context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
			n, err := strconv.Atoi(string(*req.Msg))
			if err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
			out := rawMessage(make([]byte, n))
			return connect.NewResponse(&out), nil
		}, opts...))
	return mux
}

func TestAnswerLimit(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	plain := servePeer(t, sizedMux(connect.WithCompression("gzip", nil, nil)), clearProtocols(true, true))
	gzipped := servePeer(t, sizedMux(), clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		for name, tc := range map[string]struct {
			peer *remote
			gzip bool
		}{"plain": {plain, false}, "gzip": {gzipped, true}} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, tc.peer.as(scheme), Options{Config: &configv1.Backend{MaxReceiveBytes: new(int64(limit))}, MaxHeaderBytes: 4096, Gzip: tc.gzip})
				for size, want := range map[int]bool{0: true, limit - 1: true, limit: true, limit + 1: false, 10 * limit: false, 5_000_000: false} {
					got, err := c.Call(t.Context(), echoProcedure, []byte(strconv.Itoa(size)), nil)
					switch {
					case want && (err != nil || len(got.Body) != size):
						t.Errorf("%d bytes: got %v", size, err)
					case !want:
						if e := failure(t, err); e.Kind != KindTooLarge || e.Code != connect.CodeResourceExhausted || !strings.Contains(e.Message, "(backend.max_receive_bytes)") {
							t.Errorf("%d bytes: got %v", size, err)
						}
					}
				}
			})
		}
	}
}

// An endless answer ends at the limit, not at the deadline.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	for scheme, head := range map[string]string{
		"grpc":         "\x00\xff\xff\xff\xff",
		"grpcweb+http": "\x00\xff\xff\xff\xff",
		"connect+http": "",
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				contentType := r.Header.Get("Content-Type")
				w.Header().Set("Content-Type", contentType)
				_, err := io.WriteString(w, head)
				for chunk := make([]byte, 1<<16); err == nil; {
					_, err = w.Write(chunk)
				}
			}), clearProtocols(true, true))
			c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{MaxReceiveBytes: new(int64(1 << 20))}})
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
			defer cancel()
			_, err := c.Call(ctx, echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindTooLarge {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A compressed bomb is not inflated beyond the limit, neither to keep it nor to
// tell its size.
func TestBomb(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	for range 4 {
		chunk := make([]byte, 1<<20)
		for range 8 {
			_, _ = zw.Write(chunk)
		}
	}
	_ = zw.Close()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contentType, frame := r.Header.Get("Content-Type"), []byte(nil)
		w.Header().Set("Content-Type", contentType)
		if contentType == "application/proto" {
			w.Header().Set("Content-Encoding", "gzip")
		} else { // a message of gRPC, and of gRPC-Web
			w.Header().Set("Grpc-Encoding", "gzip")
			frame = binary.BigEndian.AppendUint32([]byte{1}, uint32(bomb.Len()))
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		_, _ = w.Write(append(frame, bomb.Bytes()...))
	}), clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{MaxReceiveBytes: new(int64(1 << 20))}})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindTooLarge || !e.Sent || e.Message != "the backend's response exceeds 1048576 bytes (backend.max_receive_bytes)" {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

// A compressed answer is read though none was asked for, and asked for where
// the option says so.
func TestGzipOption(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 16)
	inner := sizedMux()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- strings.Join([]string{r.Header.Get("Accept-Encoding"), r.Header.Get("Grpc-Accept-Encoding"), r.Header.Get("Connect-Accept-Encoding")}, "|")
		inner.ServeHTTP(w, r)
	}), clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		for _, on := range []bool{false, true} {
			c := newClient(t, p.as(scheme), Options{Gzip: on})
			if _, err := c.Call(t.Context(), echoProcedure, []byte("5000"), nil); err != nil {
				t.Fatal(err)
			}
			if got := <-asked; strings.Contains(got, "gzip") != on {
				t.Errorf("%s, gzip %v: asked for %q", scheme, on, got)
			}
		}
	}
}

func TestRequestLimit(t *testing.T) {
	t.Parallel()
	p := servePeer(t, echoMux(), clearProtocols(true, true))
	for _, scheme := range append(allSchemes(), "http") {
		c := newClient(t, p.as(scheme), Options{Config: &configv1.Backend{MaxSendBytes: new(int64(1000))}})
		if _, err := c.Call(t.Context(), echoProcedure, make([]byte, 1000), nil); err != nil {
			t.Errorf("%s: at the limit: %v", scheme, err)
		}
		_, err := c.Call(t.Context(), echoProcedure, make([]byte, 1001), nil)
		if e := failure(t, err); e.Kind != KindRequestTooLarge || e.Sent {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Header().Set("X-Long", strings.Repeat("x", 200_000))
		w.WriteHeader(http.StatusOK)
	}), clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{MaxHeaderBytes: 10_000})
		_, err := c.Call(t.Context(), echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind == KindStatus || !e.Sent {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

func TestDefaultsFillOnlyWhatIsUnset(t *testing.T) {
	t.Parallel()
	got := Options{Config: &configv1.Backend{MaxSendBytes: new(int64(7)), ConnectTimeout: durationpb.New(-1)}}.withDefaults()
	if got.maxSend != 7 || got.dialTimeout != defaults.BackendConnectTimeout || got.maxReceive != defaults.BackendMaxReceiveBytes ||
		got.MaxConns != defaultMaxConns || got.probeTimeout != defaults.BackendProbeTimeout || got.AttemptTimeout != defaultAttemptTimeout {
		t.Errorf("got %+v", got)
	}
}
