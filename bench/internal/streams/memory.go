// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"fmt"
	"io"
	"net/http"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
)

// perConnection is how many streams share a connection. The sidecar admits 100 at a time.
const perConnection = 50

// memory is what each of many open streams holds that are at rest, in bytes of the sidecar's own memory (RssAnon). Each
// has passed one message in both directions.
func (r *run) memory(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closing := func(c io.Closer) { _ = c.Close() }
	held := 0
	open := func(n int) error {
		for left := n; left > 0; left -= perConnection {
			conn, err := dial(r.sidecar.Addr)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { closing(conn) })
			for range min(left, perConnection) {
				stream, err := benchv1.NewFlowClient(conn).Relay(ctx)
				if err != nil {
					return err
				}
				if err := stream.Send(&benchv1.Item{Number: 7}); err != nil {
					return err
				}
				if item, err := stream.Recv(); err != nil || item.GetNumber() != 7 {
					return fmt.Errorf("stream %d: %v, %w", held, item, err)
				}
				held++
			}
		}
		return nil
	}
	if err := open(perConnection); err != nil { // what all share
		return 0, err
	}
	before, err := r.ownMemory(ctx)
	if err != nil {
		return 0, err
	}
	if err := open(r.Open); err != nil {
		return 0, err
	}
	after, err := r.ownMemory(ctx)
	if err != nil {
		return 0, err
	}
	each := float64(after-before) / float64(r.Open)
	r.say("%d open streams: %.1f KiB each", r.Open, each/1024)
	return each, nil
}

// ownMemory collects garbage in the sidecar, twice for what has finalizers, and reads its memory. The free part of the
// heap counts, as far as the runtime has not returned it.
func (r *run) ownMemory(ctx context.Context) (int64, error) {
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.sidecar.Admin+"/debug/pprof/heap?gc=1", http.NoBody)
		if err != nil {
			return 0, fmt.Errorf("collect garbage: %w", err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, fmt.Errorf("collect garbage: %w", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	m, err := r.sidecar.Memory()
	return m.Anon, err
}
