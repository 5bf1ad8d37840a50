// SPDX-License-Identifier: Apache-2.0

package operationtest

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Server is a running backend.
type Server struct {
	longrunningpb.UnimplementedOperationsServer

	// URL is what --backend takes.
	URL string

	tb    testing.TB
	own   protoreflect.FileDescriptor
	files *protoregistry.Files

	mu         sync.Mutex
	operations map[string]*longrunningpb.Operation
	changed    chan struct{} // closed and replaced with each change
	begun      int
	calls      map[string]int
	refused    map[string]codes.Code
	sent       map[string]metadata.MD
	onBegin    func(name string)
	prefix     string
	videos     int
}

// Start serves until the end of the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		URL: "grpc://" + l.Addr().String(), tb: tb, own: descriptor(tb), files: &protoregistry.Files{},
		operations: map[string]*longrunningpb.Operation{}, changed: make(chan struct{}),
		calls: map[string]int{}, refused: map[string]codes.Code{}, sent: map[string]metadata.MD{}, prefix: "operations/",
	}
	if err := s.files.RegisterFile(s.own); err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.note))
	server.RegisterService(s.service(), s)
	longrunningpb.RegisterOperationsServer(server, s)
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{
		Services: server, DescriptorResolver: s, ExtensionResolver: protoregistry.GlobalTypes,
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

// service has an operation begin with each of its RPCs, and lists videos.
func (s *Server) service() *grpc.ServiceDesc {
	methods := s.own.Services().ByName("StudioService").Methods()
	desc := &grpc.ServiceDesc{ServiceName: Service, HandlerType: (*any)(nil), Metadata: s.own.Path()}
	for i := range methods.Len() {
		md := methods.Get(i)
		do := s.begin
		if md.Name() == "ListVideos" {
			do = s.list
		}
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: string(md.Name()),
			Handler: func(_ any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
				in := dynamicpb.NewMessage(md.Input())
				if err := decode(in); err != nil {
					return nil, err
				}
				return around(ctx, in, &grpc.UnaryServerInfo{FullMethod: Procedure + string(md.Name())}, func(context.Context, any) (any, error) { return do(in) })
			}})
	}
	return desc
}

// note counts the calls of each RPC by its name, keeps the metadata of the last one, and refuses those that are to be refused.
func (s *Server) note(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	_, name, _ := cutLast(info.FullMethod)
	s.mu.Lock()
	s.calls[name]++
	s.sent[name], _ = metadata.FromIncomingContext(ctx)
	code := s.refused[name]
	s.mu.Unlock()
	if code != codes.OK {
		return nil, status.Error(code, name+" is refused")
	}
	return handle(ctx, in)
}

func cutLast(procedure string) (service, method string, ok bool) {
	for i := len(procedure) - 1; i >= 0; i-- {
		if procedure[i] == '/' {
			return procedure[:i], procedure[i+1:], true
		}
	}
	return procedure, "", false
}

// Refuse has an RPC ("GetOperation") end with a code, or work again with OK.
func (s *Server) Refuse(name string, code codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[name] = code
}

// Calls is how often an RPC was called.
func (s *Server) Calls(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// Sent is the metadata of the last call of an RPC.
func (s *Server) Sent(name string) metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[name]
}

// OnBegin has do called with the name of each operation, before the call that begins it is answered.
func (s *Server) OnBegin(do func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onBegin = do
}

// Prefix begins the names of operations from now on.
func (s *Server) Prefix(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefix = prefix
}

// begin begins an operation, named by their number.
func (s *Server) begin(*dynamicpb.Message) (proto.Message, error) {
	s.mu.Lock()
	s.begun++
	name := s.prefix + strconv.Itoa(s.begun)
	s.operations[name] = &longrunningpb.Operation{Name: name}
	hook := s.onBegin
	s.mu.Unlock()
	if hook != nil {
		hook(name)
	}
	return s.now(name)
}

// Last is the name of the operation that began last.
func (s *Server) Last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prefix + strconv.Itoa(s.begun)
}

// now is the state of an operation.
func (s *Server) now(name string) (*longrunningpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.operations[name]; op != nil {
		return proto.CloneOf(op), nil
	}
	return nil, status.Errorf(codes.NotFound, "there is no operation %q", name)
}

// change changes an operation, and wakes who waits for one.
func (s *Server) change(name string, do func(*longrunningpb.Operation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op := s.operations[name]; op != nil {
		do(op)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Report sets the metadata of an operation.
func (s *Server) Report(name string, metadata *anypb.Any) {
	s.change(name, func(op *longrunningpb.Operation) { op.Metadata = metadata })
}

// Finish ends an operation with a response; nil is none.
func (s *Server) Finish(name string, response *anypb.Any) {
	s.change(name, func(op *longrunningpb.Operation) {
		op.Done = true
		if response != nil {
			op.Result = &longrunningpb.Operation_Response{Response: response}
		}
	})
}

// Fail ends an operation with an error.
func (s *Server) Fail(name string, failure *statuspb.Status) {
	s.change(name, func(op *longrunningpb.Operation) {
		op.Done, op.Result = true, &longrunningpb.Operation_Error{Error: failure}
	})
}

// Forget deletes an operation.
func (s *Server) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.operations, name)
}

// GetOperation implements google.longrunning.Operations.
func (s *Server) GetOperation(_ context.Context, in *longrunningpb.GetOperationRequest) (*longrunningpb.Operation, error) {
	return s.now(in.GetName())
}

// WaitOperation implements google.longrunning.Operations: it answers when the operation is done, or when the time is over.
func (s *Server) WaitOperation(ctx context.Context, in *longrunningpb.WaitOperationRequest) (*longrunningpb.Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, in.GetTimeout().AsDuration())
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		op, err := s.now(in.GetName())
		if err != nil || op.GetDone() {
			return op, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return op, nil
		}
	}
}

// CancelOperation implements google.longrunning.Operations: the operation ends with the code CANCELLED.
func (s *Server) CancelOperation(_ context.Context, in *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	op, err := s.now(in.GetName())
	if err == nil && !op.GetDone() {
		s.Fail(in.GetName(), &statuspb.Status{Code: int32(codes.Canceled), Message: "cancelled"})
	}
	return &emptypb.Empty{}, err
}

// DeleteOperation implements google.longrunning.Operations.
func (s *Server) DeleteOperation(_ context.Context, in *longrunningpb.DeleteOperationRequest) (*emptypb.Empty, error) {
	_, err := s.now(in.GetName())
	s.Forget(in.GetName())
	return &emptypb.Empty{}, err
}

// FindFileByPath implements protodesc.Resolver.
func (s *Server) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if path == s.own.Path() {
		return s.own, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (s *Server) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := s.files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// message packs a message of the server's file whose fields have these values.
func (s *Server) message(name protoreflect.Name, fields map[protoreflect.Name]any) *dynamicpb.Message {
	m := dynamicpb.NewMessage(s.own.Messages().ByName(name))
	for field, value := range fields {
		m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOf(value))
	}
	return m
}

// Video is a studio.v1.Video.
func (s *Server) Video(name string, seconds int32) *anypb.Any {
	return s.packed(s.message("Video", map[protoreflect.Name]any{"name": name, "seconds": seconds}))
}

// Progress is a studio.v1.ImportVideoMetadata.
func (s *Server) Progress(message string, percent int32) *anypb.Any {
	return s.packed(s.message("ImportVideoMetadata", map[protoreflect.Name]any{"status_message": message, "progress_percent": percent}))
}

func (s *Server) packed(m proto.Message) *anypb.Any {
	out, err := anypb.New(m)
	if err != nil {
		s.tb.Errorf("pack %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return out
}
