// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// consumersOf is the number of consumers of a stream.
func consumersOf(t *testing.T, n *natsServer, stream string) int {
	t.Helper()
	s, err := n.admin().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// TestReadersLeaveNoConsumers: a server takes a thousand consumers of a stream, and remembers one that nobody deletes for a
// minute.
func TestReadersLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{URL: n.URL()})
	events := c.Stream(state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour})
	things := c.Bucket(things())
	healthy(t, c)
	if _, err := events.Append(t.Context(), "all", []byte("one"), state.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	for range 20 {
		if _, err := events.Read(t.Context(), "all", 1, func(state.Message) error { return enough }); !errors.Is(err, enough) {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		things.Watch(ctx, state.Watcher{Loaded: stop})
	}
	for _, stream := range []string{"outrigger_default_events", "KV_outrigger_default_things"} {
		testkit.Until(t, "no consumer is left", func() bool { return consumersOf(t, n, stream) == 0 })
	}
}

// TestThousandsResume: more clients than a stream may have consumers read streams of another replica at once, until these end.
func TestThousandsResume(t *testing.T) {
	t.Parallel()
	const clients = 1500
	n, sealer := startNATS(t, nil), newSealer(t)
	o := session.Options{MaxStreams: clients}
	a, b := startKeeper(t, n, sealer, o), startKeeper(t, n, sealer, o)
	s := a.open(t)
	there := b.use(t, s.ID())
	defer there.Release()
	streams, readers := make([]*session.Stream, clients), make([]*session.Reader, clients)
	var all sync.WaitGroup
	each := func(f func(i int) error) {
		t.Helper()
		errs := make(chan error, clients)
		slots := make(chan struct{}, 32)
		for i := range clients {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				if err := f(i); err != nil {
					errs <- fmt.Errorf("client %d: %w", i, err)
				}
			})
		}
		all.Wait()
		if len(errs) > 0 {
			t.Fatalf("%d of %d failed: %v", len(errs), clients, <-errs)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	each(func(i int) error {
		streams[i] = s.NewStreamFor(aCall, true)
		first, err := streams[i].Read().Next(ctx)
		if err == nil {
			readers[i], err = there.Resume(ctx, first.ID)
		}
		return err
	})
	each(func(i int) error { return streams[i].Finish(fmt.Appendf(nil, "answer %d", i)) })
	each(func(i int) error {
		defer readers[i].Close()
		e, err := readers[i].Next(ctx)
		if err == nil && string(e.Message) != fmt.Sprintf("answer %d", i) {
			err = fmt.Errorf("got %q", e.Message)
		}
		return err
	})
	if got := consumersOf(t, n, "outrigger_default_streams"); got != 0 {
		t.Errorf("%d consumers", got)
	}
}
