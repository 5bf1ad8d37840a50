// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

func TestEchoReturnsEverythingUnchangedOnEveryProtocol(t *testing.T) {
	t.Parallel()
	url := start(t, demo.Options{}).URL()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			p := dial(t, url, protocol.http2, protocol.options...)
			for _, sent := range []*demov1.EchoRequest{
				{},
				{Nonce: "ünïcödé", Signed: math.MinInt64, Unsigned: math.MaxUint64, Payload: []byte{0, 1, 254, 255}},
				{Signed: math.MaxInt64, Unsigned: 1<<53 + 1, Payload: make([]byte, 100_000)},
			} {
				want := &demov1.EchoResponse{Nonce: sent.Nonce, Signed: sent.Signed, Unsigned: sent.Unsigned, Payload: sent.Payload}
				if diff := cmp.Diff(want, ask(t, p.lab.Echo, sent), protocmp.Transform()); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestParallelEchoesReachTheirOwnCallers(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	var callers sync.WaitGroup
	for i := range 300 { // more than the 250 streams that Go's HTTP/2 server allows by default
		callers.Go(func() {
			nonce := fmt.Sprint("caller ", i)
			res, err := p.lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: nonce, Signed: int64(i)}))
			if err != nil {
				t.Errorf("%s: %v", nonce, err)
				return
			}
			if res.Msg.GetNonce() != nonce || res.Msg.GetSigned() != int64(i) {
				t.Errorf("%s got the answer of %q", nonce, res.Msg.GetNonce())
			}
		})
	}
	callers.Wait()
}

func TestFailCarriesItsDetailsOnEveryProtocol(t *testing.T) {
	t.Parallel()
	url := start(t, demo.Options{}).URL()
	want := []proto.Message{
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2500 * time.Millisecond)},
		&errdetails.ErrorInfo{
			Reason: "TIDE_TOO_LOW", Domain: "lagoon-express.example",
			Metadata: map[string]string{"passage": "Needle Pass", "next_high_water": "14:20"},
		},
		&errdetails.ResourceInfo{ResourceType: "vehicle", ResourceName: "999", Owner: "dispatch", Description: "sunk in 1987"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "parcels[0].weight_kg", Description: "a parcel of 900 kg sinks a canoe"},
			{Field: "window.not_after", Description: "yesterday is over"},
		}},
	}
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			_, err := dial(t, url, protocol.http2, protocol.options...).lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{
				Code: demov1.FailCode_FAIL_CODE_UNAVAILABLE, Message: "wait for the tide",
				RetryDelay: durationpb.New(2500 * time.Millisecond),
				Details: []demov1.FailDetail{
					demov1.FailDetail_FAIL_DETAIL_RETRY_INFO, demov1.FailDetail_FAIL_DETAIL_ERROR_INFO,
					demov1.FailDetail_FAIL_DETAIL_RESOURCE_INFO, demov1.FailDetail_FAIL_DETAIL_BAD_REQUEST,
				},
			}))
			failure := failureOf(t, err, connect.CodeUnavailable)
			if failure.Message() != "wait for the tide" {
				t.Errorf("message %q", failure.Message())
			}
			if diff := cmp.Diff(want, details(t, failure), protocmp.Transform()); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailKnowsEveryCodeAndDetail(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	for number, name := range demov1.FailCode_name {
		if number == 0 {
			continue
		}
		_, err := p.lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{Code: demov1.FailCode(number)}))
		failure := failureOf(t, err, connect.Code(number))
		// connect spells one code with one l, and gRPC's canonical name has two.
		spelled := strings.ReplaceAll(strings.ToUpper(failure.Code().String()), "CANCELED", "CANCELLED")
		if "FAIL_CODE_"+spelled != name {
			t.Errorf("%s failed with %s", name, failure.Code())
		}
	}
	for number, name := range demov1.FailDetail_name {
		if number == 0 {
			continue
		}
		_, err := p.lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{
			Code: demov1.FailCode_FAIL_CODE_ABORTED, Details: []demov1.FailDetail{demov1.FailDetail(number)},
		}))
		got := details(t, failureOf(t, err, connect.CodeAborted))
		want := strings.ReplaceAll(strings.TrimPrefix(name, "FAIL_DETAIL_"), "_", "")
		if len(got) != 1 || strings.ToUpper(string(got[0].ProtoReflect().Descriptor().Name())) != want {
			t.Errorf("%s brought %v", name, got)
		}
	}
}

func TestInspectShowsWhatArrived(t *testing.T) {
	t.Parallel()
	url := start(t, demo.Options{}).URL()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			req := connect.NewRequest(&demov1.InspectRequest{
				ReplyHeaders: map[string]string{"x-before": "1"}, ReplyTrailers: map[string]string{"x-after": "2"},
			})
			req.Header().Add("X-Tenant", "lagoon")
			req.Header().Add("X-Tenant", "reef")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			res, err := dial(t, url, protocol.http2, protocol.options...).lab.Inspect(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(res.Msg.GetMetadata()["x-tenant"].GetValues(), ","); got != "lagoon,reef" {
				t.Errorf("x-tenant arrived as %q", got)
			}
			if left := res.Msg.GetTimeLeft().AsDuration(); left <= 0 || left > time.Minute {
				t.Errorf("time left: %v", left)
			}
			if want, _, _ := strings.Cut(protocol.name, " "); res.Msg.GetProtocol() != want {
				t.Errorf("protocol %q, want %q", res.Msg.GetProtocol(), want)
			}
			if got := res.Header().Get("X-Before"); got != "1" {
				t.Errorf("header: %q", got)
			}
			if got := res.Trailer().Get("X-After"); got != "2" {
				t.Errorf("trailer: %q", got)
			}
		})
	}
}

func TestReadOnlyCallsTravelAsGet(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, demo.Options{}).URL(), false, connect.WithHTTPGet())
	if got := ask(t, p.lab.Inspect, &demov1.InspectRequest{}).GetHttpMethod(); got != "GET" {
		t.Errorf("method %q", got)
	}
}

func TestRelayAnswersWhileTheCallerStillSends(t *testing.T) {
	t.Parallel()
	stream := grpcPeer(t, demo.Options{}).lab.Relay(t.Context())
	for i := range int64(3) {
		if err := stream.Send(&demov1.EchoRequest{Signed: i}); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if res.GetSigned() != i {
			t.Errorf("got %d, want %d", res.GetSigned(), i)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last message: %v, want EOF", err)
	}
	if err := stream.CloseResponse(); err != nil {
		t.Fatal(err)
	}
}

func failureOf(t *testing.T, err error, want connect.Code) *connect.Error {
	t.Helper()
	var failure *connect.Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want an RPC error", err)
	}
	if failure.Code() != want {
		t.Fatalf("code %v, want %v (%v)", failure.Code(), want, err)
	}
	return failure
}

func details(t *testing.T, failure *connect.Error) []proto.Message {
	t.Helper()
	var all []proto.Message
	for _, detail := range failure.Details() {
		message, err := detail.Value()
		if err != nil {
			t.Fatalf("detail %s: %v", detail.Type(), err)
		}
		all = append(all, message)
	}
	return all
}

// detail returns the first detail of one type.
func detail[T proto.Message](t *testing.T, failure *connect.Error) T {
	t.Helper()
	for _, message := range details(t, failure) {
		if wanted, ok := message.(T); ok {
			return wanted
		}
	}
	var none T
	t.Fatalf("%v has no %T", failure, none)
	return none
}
