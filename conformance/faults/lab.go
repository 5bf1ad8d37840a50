// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpshutdown"
)

// The methods that callers use. The rig's configuration says that Sleep is not
// idempotent, whatever its descriptor says, so there is one of each kind.
const (
	MethodEcho  = "Echo"
	MethodSleep = "Sleep"
	MethodFail  = "Fail"
)

// Variables of the environment by which a test binary is asked to be a backend.
const (
	envAddr    = "OUTRIGGER_FAULTS_ADDR"
	envJournal = "OUTRIGGER_FAULTS_JOURNAL"
	envServer  = "OUTRIGGER_FAULTS_SERVER"
)

// Stack is what the backend is made of.
type Stack string

// The stacks. Connect speaks Connect, gRPC and gRPC-Web; GRPC is grpc-go.
const (
	GRPC    Stack = "grpc"
	Connect Stack = "connect"
)

// heldPause is how long a call that is held waits until it looks whether it still is.
const heldPause = 20 * time.Millisecond

// stopTime bounds how long a backend that is asked to end may answer calls.
const stopTime = 10 * time.Second

// IsBackend reports whether this process was started to be a backend. TestMain
// asks, and then runs [RunBackend].
func IsBackend() bool { return os.Getenv(envAddr) != "" }

// RunBackend serves the Lab, and over grpc-go streams of every kind, until standard input ends, which it does with the
// process that started this one, or until SIGTERM, after which calls in flight
// are answered. The address is the first line of standard output.
func RunBackend() error {
	journal, err := OpenJournal(os.Getenv(envJournal))
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	l, err := net.Listen("tcp", os.Getenv(envAddr))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, l.Addr())
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // its parent is gone
	}()
	lab := &lab{journal: journal, held: heldFile(os.Getenv(envJournal))}
	if Stack(os.Getenv(envServer)) == Connect {
		return lab.serveConnect(ctx, l)
	}
	return lab.serveGRPC(ctx, l)
}

// lab answers outrigger.demo.v1.Lab and writes down what it runs.
type lab struct {
	demov1connect.UnimplementedLabHandler
	journal *Journal
	held    string // a file that is there while calls are not to be answered
}

// heldFile tells the backend to hold its calls.
func heldFile(journal string) string { return journal + ".held" }

// run writes an execution down, works for a while, and then for as long as calls are
// held. Who cancels a call ends the work, not what is written.
func (l *lab) run(ctx context.Context, method, nonce string, work time.Duration) error {
	if err := l.journal.Begin(method, nonce); err != nil {
		return err
	}
	timer := time.NewTimer(work)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := os.Stat(l.held); err != nil {
			return nil
		}
		timer.Reset(heldPause)
	}
}

// echo takes as many milliseconds as the signed number says.
func (l *lab) echo(ctx context.Context, req *demov1.EchoRequest) (*demov1.EchoResponse, error) {
	if err := l.run(ctx, MethodEcho, req.GetNonce(), time.Duration(req.GetSigned())*time.Millisecond); err != nil {
		return nil, err
	}
	return &demov1.EchoResponse{Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload()}, nil
}

func (l *lab) sleep(ctx context.Context, req *demov1.SleepRequest) (*demov1.SleepResponse, error) {
	start := time.Now()
	if err := l.run(ctx, MethodSleep, req.GetNonce(), req.GetDuration().AsDuration()); err != nil {
		return nil, err
	}
	return &demov1.SleepResponse{Slept: durationpb.New(time.Since(start)), Nonce: req.GetNonce()}, nil
}

// Echo implements the handler of connect-go.
func (l *lab) Echo(ctx context.Context, req *connect.Request[demov1.EchoRequest]) (*connect.Response[demov1.EchoResponse], error) {
	return connected(l.echo(ctx, req.Msg))
}

// Sleep implements the handler of connect-go.
func (l *lab) Sleep(ctx context.Context, req *connect.Request[demov1.SleepRequest]) (*connect.Response[demov1.SleepResponse], error) {
	return connected(l.sleep(ctx, req.Msg))
}

func connected[Res any](res *Res, err error) (*connect.Response[Res], error) {
	if err != nil {
		return nil, connect.NewError(connect.CodeCanceled, err)
	}
	return connect.NewResponse(res), nil
}

func (l *lab) serveConnect(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewLabHandler(l))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: stopTime}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return httpshutdown.Shutdown(ctx, server)
}

func (l *lab) serveGRPC(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer()
	server.RegisterService(l.service(), l)
	grpc_testing.RegisterTestServiceServer(server, &streamLab{journal: l.journal, enough: enoughFile(os.Getenv(envJournal))})
	reflection.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	cut := time.AfterFunc(stopTime, server.Stop)
	defer cut.Stop()
	server.GracefulStop()
	return <-served
}

// service is the table of methods for grpc-go.
func (l *lab) service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "outrigger.demo.v1.Lab", HandlerType: (*any)(nil), Metadata: "outrigger/demo/v1/lab.proto",
		Methods: []grpc.MethodDesc{
			method(MethodEcho, l.echo), method(MethodSleep, l.sleep),
			method(MethodFail, func(_ context.Context, req *demov1.FailRequest) (*demov1.FailResponse, error) {
				return nil, status.Error(codes.Code(req.GetCode()), "as asked")
			}),
		},
	}
}

// method adapts a function to grpc-go.
func method[Req, Res any](name string, call func(context.Context, *Req) (*Res, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		return call(ctx, req)
	}}
}
