// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// shop is a backend whose calls last until a test lets them end.
type shop struct {
	url, descriptors string

	mu      sync.Mutex
	calls   map[string]int // begun, by RPC and name
	ended   map[string]int // whose caller went away
	release chan struct{}
}

// startShop starts a backend with two RPCs: Look may be called again, Pay may not. Their
// messages have the wire form of a string in a wrapper.
func startShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{calls: map[string]int{}, ended: map[string]int{}, release: make(chan struct{})}
	mux := http.NewServeMux()
	for _, name := range []string{"Look", "Pay", "Ping"} {
		procedure := "/fleet.v1.Shop/" + name
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			key := name + " " + req.Msg.GetValue()
			s.mu.Lock()
			s.calls[key]++
			release := s.release
			s.mu.Unlock()
			if name != "Ping" {
				select {
				case <-release:
				case <-ctx.Done():
					s.mu.Lock()
					s.ended[key]++
					s.mu.Unlock()
					return nil, ctx.Err()
				}
			}
			return connect.NewResponse(wrapperspb.String("result of " + key)), nil
		}))
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(s.letGo)
	s.url, s.descriptors = "grpc://"+server.Listener.Addr().String(), describeShop(t)
	return s
}

// letGo lets all calls end.
func (s *shop) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.release:
	default:
		close(s.release)
	}
}

func (s *shop) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

// describeShop writes the descriptors of the backend.
func describeShop(t *testing.T) string {
	t.Helper()
	message := func(name string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("name"), Number: proto.Int32(1), JsonName: proto.String("name"),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}
	}
	method := func(name string, options *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: proto.String(".fleet.v1.Ask"), OutputType: proto.String(".fleet.v1.Answer"), Options: options}
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("fleet/v1/shop.proto"), Package: proto.String("fleet.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{message("Ask"), message("Answer")},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Look", &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}),
			method("Pay", nil), method("Ping", nil),
		}}},
	}}}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "shop.binpb", raw)
}

// write writes a file that lasts as long as the test.
func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keyFile holds one key that all replicas share.
func keyFile(t *testing.T) string {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return write(t, "state.key", []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
}
