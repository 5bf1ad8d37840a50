// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// Lab implements outrigger.demo.v1.Lab for grpc-go, which is not the stack that
// the demo service is made of. It counts what it sees, so that a test can tell
// whether a call reached it and how it ended.
type Lab struct {
	calls, cancelled, slept atomic.Int64
	// left is the time that the last call of Sleep had, in nanoseconds.
	left atomic.Int64
	// woken is closed by Wake.
	woken chan struct{}
	made  sync.Once
}

// Wake ends the calls of Sleep as if their time was over, and later ones at once. A test
// that needs a call to last until it has done something can so let it last as long
// as that takes. It is called once.
func (l *Lab) Wake() { close(l.wake()) }

func (l *Lab) wake() chan struct{} {
	l.made.Do(func() { l.woken = make(chan struct{}) })
	return l.woken
}

// Calls is how many calls have begun.
func (l *Lab) Calls() int64 { return l.calls.Load() }

// Cancelled is how many calls of Sleep were cancelled before their time.
func (l *Lab) Cancelled() int64 { return l.cancelled.Load() }

// Slept is how many calls of Sleep ended by themselves.
func (l *Lab) Slept() int64 { return l.slept.Load() }

// Left is how long the last call of Sleep might have taken when it came; 0 where it
// had no deadline.
func (l *Lab) Left() time.Duration { return time.Duration(l.left.Load()) }

// Fixed parts of the failures of Fail.
const (
	FailTrailer = "x-lab-trailer"
	FailHeader  = "x-lab-header"
	FailReason  = "OUT_OF_COCONUTS"
	FailDomain  = "lab.test"
	FailMessage = "no coconuts left: ask again tomorrow"
)

func (l *Lab) echo(_ context.Context, req *demov1.EchoRequest) (*demov1.EchoResponse, error) {
	l.calls.Add(1)
	return &demov1.EchoResponse{
		Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload(),
	}, nil
}

func (l *Lab) sleep(ctx context.Context, req *demov1.SleepRequest) (*demov1.SleepResponse, error) {
	l.calls.Add(1)
	start := time.Now()
	left := int64(0)
	if deadline, ok := ctx.Deadline(); ok {
		left = int64(time.Until(deadline))
	}
	l.left.Store(left)
	timer := time.NewTimer(req.GetDuration().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.wake():
	case <-ctx.Done():
		l.cancelled.Add(1)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	l.slept.Add(1)
	return &demov1.SleepResponse{Slept: durationpb.New(time.Since(start)), Nonce: req.GetNonce()}, nil
}

// fail answers with the code asked for, three details, a header and a trailer.
func (l *Lab) fail(ctx context.Context, req *demov1.FailRequest) (*demov1.FailResponse, error) {
	l.calls.Add(1)
	_ = grpc.SetHeader(ctx, metadata.Pairs(FailHeader, "before"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs(FailTrailer, "after"))
	st, err := status.New(codes.Code(req.GetCode()), FailMessage).WithDetails(
		&errdetails.ErrorInfo{Reason: FailReason, Domain: FailDomain, Metadata: map[string]string{"shelf": "7"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "coconuts", Description: "too many"}}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
	)
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// unary adapts a function to grpc-go's table of methods.
func unary[Req, Res any](name string, call func(*Lab, context.Context, *Req) (*Res, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		lab, ok := srv.(*Lab)
		if !ok {
			return nil, status.Errorf(codes.Internal, "the server is a %T", srv)
		}
		return call(lab, ctx, req)
	}}
}

// labService is what protoc-gen-go-grpc would have made of lab.proto, as far as
// Lab serves it.
func labService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "outrigger.demo.v1.Lab",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("Echo", (*Lab).echo), unary("Sleep", (*Lab).sleep), unary("Fail", (*Lab).fail),
		},
		Metadata: "outrigger/demo/v1/lab.proto",
	}
}
