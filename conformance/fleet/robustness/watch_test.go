// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestReadersEndAtOnce: who watches or reads is not held up by a NATS that says nothing, so that a process can exit. Those who
// were held up would be each time; a busy machine is late now and then.
func TestReadersEndAtOnce(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, loopback)
	sealer := keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()})
	var took time.Duration
	for range 3 {
		if took = endReaders(t, cluster, sealer); took <= 4*time.Second {
			return
		}
	}
	t.Errorf("readers ended after %v", took)
}

// endReaders is how long readers take to end while NATS says nothing.
func endReaders(t *testing.T, cluster *natsCluster, sealer *keys.Sealer) time.Duration {
	t.Helper()
	way := newLink(t, "way", cluster.all[0].client)
	c := open(t, sealer, &natsServer{client: way.addr})
	things := c.Bucket(state.BucketOptions{Name: "things", MaxBytes: 1 << 20, MaxAge: time.Hour})
	events := c.Stream(state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour})
	testkit.Until(t, "the state is available", func() bool { return c.Health().OK })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	loaded := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() { things.Watch(ctx, state.Watcher{Loaded: func() { close(loaded) }}) })
	readers.Go(func() {
		for ctx.Err() == nil {
			_, _ = events.Read(ctx, "all", 1, func(state.Message) error { return nil })
		}
	})
	<-loaded
	way.freeze()
	// Readers have missed the words of NATS by then, and make their consumers anew.
	time.Sleep(6 * time.Second)
	began := time.Now()
	stop()
	readers.Wait()
	took := time.Since(began)
	way.mend()
	return took
}
