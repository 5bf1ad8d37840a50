// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
)

// flow serves streams of every kind.
type flow struct {
	benchv1.UnimplementedFlowServer
}

// Collect implements [benchv1.FlowServer].
func (flow) Collect(stream grpc.ClientStreamingServer[benchv1.Item, benchv1.Count]) error {
	for next := uint64(0); ; next++ {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&benchv1.Count{Items: next})
		}
		if err != nil {
			return err
		}
		if item.GetNumber() != next {
			return status.Errorf(codes.DataLoss, "item %d follows item %d", item.GetNumber(), next)
		}
	}
}

// Produce implements [benchv1.FlowServer].
func (flow) Produce(wanted *benchv1.Wanted, stream grpc.ServerStreamingServer[benchv1.Item]) error {
	if wanted.GetSize() > maxMessage {
		return status.Error(codes.InvalidArgument, "size: too large")
	}
	item := &benchv1.Item{Payload: make([]byte, wanted.GetSize())}
	for item.Number = 0; item.GetNumber() < wanted.GetItems(); item.Number++ {
		if err := stream.Send(item); err != nil {
			return err
		}
	}
	return nil
}

// Relay implements [benchv1.FlowServer].
func (flow) Relay(stream grpc.BidiStreamingServer[benchv1.Item, benchv1.Item]) error {
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(item); err != nil {
			return err
		}
	}
}
