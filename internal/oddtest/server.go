// SPDX-License-Identifier: Apache-2.0

package oddtest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// Kinds of Anys: what a Box or a Failure asks for.
const (
	// Status is a google.rpc.Status with details, among them a Treasure.
	Status = "status"
	// Reserved is of the service's own file, and no field has its type.
	Reserved = "reserved"
	// Treasure is of a file that only reflection by symbol finds; a Coin is inside.
	Treasure = "treasure"
	// Nowhere is of a type that even the server cannot describe.
	Nowhere = "nowhere"
	// Chest is a Treasure that holds a Nowhere.
	Chest = "chest"
)

// Message is what Fail says.
const Message = "the store is odd today"

// Server is a running backend.
type Server struct {
	// URL is what --backend takes.
	URL string

	files *protoregistry.Files
	mu    sync.Mutex
	asked map[protoreflect.FullName]int
}

// Start serves until the end of the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{URL: "grpc://" + l.Addr().String(), files: Files(), asked: map[protoreflect.FullName]int{}}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "odd.v1.Odd", HandlerType: (*any)(nil), Metadata: "odd/v1/odd.proto",
		Methods: []grpc.MethodDesc{s.method("Open", s.open), s.method("Peek", s.open), s.method("Fail", s.fail)},
	}, s)
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{
		Services: server, DescriptorResolver: s, ExtensionResolver: new(protoregistry.Types),
	}))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil {
			tb.Errorf("grpc-go: serve: %v", err)
		}
	})
	tb.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return s
}

// Asked is how often reflection was asked for a symbol.
func (s *Server) Asked(name protoreflect.FullName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

// FindFileByPath implements protodesc.Resolver.
func (s *Server) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	return s.files.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (s *Server) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	s.mu.Lock()
	s.asked[name]++
	s.mu.Unlock()
	return s.files.FindDescriptorByName(name)
}

// method serves one RPC on messages without generated code.
func (s *Server) method(name string, do func(*dynamicpb.Message) (proto.Message, error)) grpc.MethodDesc {
	d, err := s.files.FindDescriptorByName(protoreflect.FullName("odd.v1.Odd." + name))
	must(err)
	input := d.(protoreflect.MethodDescriptor).Input()
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := dynamicpb.NewMessage(input)
		if err := decode(in); err != nil {
			return nil, err
		}
		return do(in)
	}}
}

// open answers with the kind of content that was asked for, or with what came.
func (s *Server) open(in *dynamicpb.Message) (proto.Message, error) {
	fields := in.Descriptor().Fields()
	kind := in.Get(fields.ByName("kind")).String()
	if kind == "" {
		return in, nil
	}
	held, err := s.packed(kind)
	if err != nil {
		return nil, err
	}
	in.Set(fields.ByName("content"), protoreflect.ValueOfMessage(held.ProtoReflect()))
	in.Mutable(fields.ByName("more")).List().Append(protoreflect.ValueOfMessage(held.ProtoReflect()))
	return in, nil
}

// fail answers with a status and details.
func (s *Server) fail(in *dynamicpb.Message) (proto.Message, error) {
	fields := in.Descriptor().Fields()
	out := &statuspb.Status{Code: int32(in.Get(fields.ByName("status")).Int()), Message: Message}
	kinds := in.Get(fields.ByName("kinds")).List()
	for i := range kinds.Len() {
		held, err := s.packed(kinds.Get(i).String())
		if err != nil {
			return nil, err
		}
		out.Details = append(out.Details, held)
	}
	return nil, status.ErrorProto(out)
}

func (s *Server) packed(kind string) (*anypb.Any, error) {
	nowhere := &anypb.Any{TypeUrl: "type.googleapis.com/odd.nowhere.v1.Thing", Value: []byte{8, 7}}
	coin := made(s.files, "odd.far.v1.Coin", `face: "heads"`)
	switch kind {
	case Status:
		treasure, err := s.packed(Treasure)
		if err != nil {
			return nil, err
		}
		info, err := anypb.New(&errdetails.ErrorInfo{Reason: "ODD", Domain: "odd.test"})
		if err != nil {
			return nil, err
		}
		return anypb.New(&statuspb.Status{Code: 9, Message: "not now", Details: []*anypb.Any{info, treasure}})
	case Reserved:
		return anypb.New(made(s.files, "odd.v1.Reserved", `reason: "already started" run_id: "r-1" secret: "s3cret"`))
	case Treasure:
		return s.treasure(coin)
	case Chest:
		return s.treasure(nowhere)
	case Nowhere:
		return nowhere, nil
	}
	return nil, errors.New("oddtest: no such kind: " + kind)
}

func (s *Server) treasure(inside proto.Message) (*anypb.Any, error) {
	held, ok := inside.(*anypb.Any)
	if !ok {
		var err error
		if held, err = anypb.New(inside); err != nil {
			return nil, err
		}
	}
	m := made(s.files, "odd.far.v1.Treasure", `name: "crown" weight: 9007199254740993`)
	m.Set(m.Descriptor().Fields().ByName("inside"), protoreflect.ValueOfMessage(held.ProtoReflect()))
	return anypb.New(m)
}
