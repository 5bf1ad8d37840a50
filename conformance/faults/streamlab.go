// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
)

// The kinds of streams, by the methods of grpc.testing.TestService that have them.
const (
	ClientStream = "StreamingInputCall"
	ServerStream = "StreamingOutputCall"
	BidiStream   = "FullDuplexCall"
)

// streamLab answers the streams of grpc.testing.TestService, and writes down each message
// that comes. A message is its stream's nonce and its number; see messageOf.
type streamLab struct {
	grpc_testing.UnimplementedTestServiceServer

	journal *Journal
}

// messageOf is the text of a message.
func messageOf(nonce string, number int) string { return fmt.Sprintf("%s/%d", nonce, number) }

// StreamingInputCall answers with the number of messages.
func (l *streamLab) StreamingInputCall(stream grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	for n := int32(0); ; n++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: n})
		}
		if err != nil {
			return err
		}
		if err := l.journal.Begin(ClientStream, string(m.GetPayload().GetBody())); err != nil {
			return err
		}
	}
}

// StreamingOutputCall sends a message for each of response_parameters, after its interval.
func (l *streamLab) StreamingOutputCall(req *grpc_testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	nonce := string(req.GetPayload().GetBody())
	if err := l.journal.Begin(ServerStream, messageOf(nonce, 0)); err != nil {
		return err
	}
	for i, p := range req.GetResponseParameters() {
		select {
		case <-time.After(time.Duration(p.GetIntervalUs()) * time.Microsecond):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: &grpc_testing.Payload{Body: []byte(messageOf(nonce, i))}})
		if err != nil {
			return err
		}
	}
	return nil
}

// FullDuplexCall gives back each message.
func (l *streamLab) FullDuplexCall(stream grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.journal.Begin(BidiStream, string(m.GetPayload().GetBody())); err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
			return err
		}
	}
}
