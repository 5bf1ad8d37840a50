// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// lab serves outrigger.demo.v1.Lab. It has no state.
type lab struct{}

func (lab) Echo(_ context.Context, req *connect.Request[demov1.EchoRequest]) (*connect.Response[demov1.EchoResponse], error) {
	return connect.NewResponse(echo(req.Msg)), nil
}

func (lab) Relay(_ context.Context, stream *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error {
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(echo(req)); err != nil {
			return err
		}
	}
}

func echo(req *demov1.EchoRequest) *demov1.EchoResponse {
	return &demov1.EchoResponse{
		Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload(),
	}
}

func (lab) Sleep(ctx context.Context, req *connect.Request[demov1.SleepRequest]) (*connect.Response[demov1.SleepResponse], error) {
	start := time.Now()
	timer := time.NewTimer(req.Msg.GetDuration().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	return connect.NewResponse(&demov1.SleepResponse{
		Slept: durationpb.New(time.Since(start)),
		Nonce: req.Msg.GetNonce(),
	}), nil
}

// ended names the end of a context in the words of an RPC.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

func (lab) Inspect(ctx context.Context, req *connect.Request[demov1.InspectRequest]) (*connect.Response[demov1.InspectResponse], error) {
	seen := &demov1.InspectResponse{
		Metadata:   make(map[string]*demov1.MetadataValues, len(req.Header())),
		Protocol:   req.Peer().Protocol,
		HttpMethod: req.HTTPMethod(),
		Peer:       req.Peer().Addr,
	}
	for name, values := range req.Header() {
		if text := printable(values); len(text) > 0 {
			seen.Metadata[strings.ToLower(name)] = &demov1.MetadataValues{Values: text}
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		seen.TimeLeft = durationpb.New(time.Until(deadline))
	}
	res := connect.NewResponse(seen)
	setAll(res.Header(), req.Msg.GetReplyHeaders())
	setAll(res.Trailer(), req.Msg.GetReplyTrailers())
	return res, nil
}

// printable drops values that a Protobuf string cannot hold: header values may be any bytes.
func printable(values []string) []string {
	var kept []string
	for _, value := range values {
		if strings.ToValidUTF8(value, "") == value {
			kept = append(kept, value)
		}
	}
	return kept
}

func setAll(header http.Header, values map[string]string) {
	for name, value := range values {
		header.Set(name, value)
	}
}
