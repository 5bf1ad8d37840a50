// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	enough  string // a file that is there when the server's streams are to end
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

// StreamingOutputCall sends messages until the rig says that it is enough, and writes down
// each before it is sent.
func (l *streamLab) StreamingOutputCall(req *grpc_testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	nonce := string(req.GetPayload().GetBody())
	for i := 0; ; i++ {
		if _, err := os.Stat(l.enough); err == nil {
			return nil
		}
		m := messageOf(nonce, i)
		if err := l.journal.Begin(ServerStream, m); err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: &grpc_testing.Payload{Body: []byte(m)}}); err != nil {
			return err
		}
		select {
		case <-time.After(flowPause):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
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
