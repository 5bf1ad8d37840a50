// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// longest bounds a cell, on a machine that is busy.
const longest = 2 * time.Minute

// flow passes so many items in one stream, checks the number of each, and returns how many messages that were.
type flow func(ctx context.Context, c benchv1.FlowClient, items, payload int) (int, error)

// errWrong tells that messages were lost, repeated or crossed.
var errWrong = errors.New("wrong messages")

// pass runs all streams of a cell through a subject. The CPU time counts from before the first is opened until all have
// ended, so that no message counts in part.
func (r *run) pass(ctx context.Context, s subject, c cell) (report.StreamsFigure, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(longest, func() { cancel(fmt.Errorf("streams did not end within %v", longest)) })
	defer watchdog.Stop()
	before, err := s.process.CPU()
	if err != nil {
		return report.StreamsFigure{}, err
	}
	began := time.Now()
	passed := make([]int, r.Streams)
	var running sync.WaitGroup
	for i := range passed {
		running.Go(func() {
			n, err := c.flow(ctx, s.client(), c.items, c.payload)
			if err != nil {
				cancel(err)
			}
			passed[i] = n
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return report.StreamsFigure{}, context.Cause(ctx)
	}
	took := time.Since(began)
	after, err := s.process.CPU()
	if err != nil {
		return report.StreamsFigure{}, err
	}
	messages := 0
	for _, n := range passed {
		messages += n
	}
	return report.StreamsFigure{
		Rate: float64(messages) / took.Seconds(),
		CPU:  float64((after - before).Nanoseconds()) / 1e3 / float64(messages),
	}, nil
}

// collect is a client's stream.
func collect(ctx context.Context, c benchv1.FlowClient, items, payload int) (int, error) {
	stream, err := c.Collect(ctx)
	if err != nil {
		return 0, err
	}
	if err := sendAll(stream.Send, items, payload); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	count, err := stream.CloseAndRecv()
	if err != nil {
		return 0, err
	}
	if count.GetItems() != uint64(items) {
		return 0, fmt.Errorf("%w: %d of %d arrived", errWrong, count.GetItems(), items)
	}
	return items, nil
}

func sendAll(send func(*benchv1.Item) error, items, payload int) error {
	item := &benchv1.Item{Payload: make([]byte, payload)}
	for i := range items {
		item.Number = uint64(i)
		if err := send(item); err != nil {
			return err
		}
	}
	return nil
}

// produce is a server's stream.
func produce(ctx context.Context, c benchv1.FlowClient, items, payload int) (int, error) {
	stream, err := c.Produce(ctx, &benchv1.Wanted{Items: uint64(items), Size: uint32(payload)})
	if err != nil {
		return 0, err
	}
	return items, receiveAll(stream.Recv, items, payload)
}

func receiveAll(receive func() (*benchv1.Item, error), items, payload int) error {
	for next := 0; ; next++ {
		item, err := receive()
		if errors.Is(err, io.EOF) && next == items {
			return nil
		}
		if err != nil {
			return fmt.Errorf("item %d of %d: %w", next, items, err)
		}
		if item.GetNumber() != uint64(next) || len(item.GetPayload()) != payload {
			return fmt.Errorf("%w: item %d is %d with %d bytes", errWrong, next, item.GetNumber(), len(item.GetPayload()))
		}
	}
}

// relay is a stream in both directions at once. Its messages are those of both.
func relay(ctx context.Context, c benchv1.FlowClient, items, payload int) (int, error) {
	stream, err := c.Relay(ctx)
	if err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() {
		err := sendAll(stream.Send, items, payload)
		sent <- errors.Join(err, stream.CloseSend())
	}()
	err = receiveAll(stream.Recv, items, payload)
	return 2 * items, errors.Join(err, <-sent)
}

// pingPong is a stream in both directions, with one message under way.
func pingPong(ctx context.Context, c benchv1.FlowClient, items, payload int) (int, error) {
	stream, err := c.Relay(ctx)
	if err != nil {
		return 0, err
	}
	next := 0
	item := &benchv1.Item{Payload: make([]byte, payload)}
	err = receiveAll(func() (*benchv1.Item, error) {
		if next == items {
			if err := stream.CloseSend(); err != nil {
				return nil, err
			}
		} else {
			item.Number = uint64(next)
			next++
			if err := stream.Send(item); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
		return stream.Recv()
	}, items, payload)
	return 2 * items, err
}
