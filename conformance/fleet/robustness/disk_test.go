// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAFullDiskLosesNothing fills the disk of a leader while keys are created: who was told that a key is his keeps it. Servers without
// `sync_interval: always` break this in one round of three: they acknowledge a message, fail to write it a moment later, and take the
// key for free.
func TestAFullDiskLosesNothing(t *testing.T) {
	rounds := 2
	if *duration >= longRun {
		rounds = 20
	}
	cluster := startCluster(t, loopback)
	var urls []string
	for _, s := range cluster.all {
		urls = append(urls, "nats://"+s.client)
	}
	c, err := state.Open(state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(servers))}), Sealer: keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()})})
	if err != nil {
		t.Fatal(err)
	}
	b := c.Bucket(state.BucketOptions{Name: "things", MaxBytes: 16 << 20, MaxAge: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
		c.Close()
	}()
	whole := func() {
		testkit.Until(t, "the state is available", func() bool { return c.Health().OK })
		cluster.whole()
	}
	for round := range rounds {
		whole()
		s := cluster.leader("KV_outrigger_default_things")
		if s == nil || !s.hasDisk {
			t.Skip("no disk can be full here")
		}
		var created []string
		isFull := false
		for n, until := 0, time.Now().Add(3*time.Second); time.Now().Before(until); n++ {
			if len(created) == 20 && !isFull {
				isFull = true
				if err := s.fill(); err != nil {
					t.Fatal(err)
				}
			}
			key := fmt.Sprintf("%d-%d", round, n)
			if _, err := b.Create(ctx, key, []byte("first"), time.Hour); err != nil {
				continue
			}
			created = append(created, key)
			time.Sleep(4 * time.Millisecond) // servers that write later do so within two
			if _, err := b.Create(ctx, key, []byte("second"), time.Hour); err == nil {
				t.Errorf("%s was created twice", key)
			}
		}
		if !isFull {
			t.Error("the disk was not filled")
		}
		s.empty()
		s.signal(syscall.SIGTERM) // as after the fault disk-full
		s.start()
		whole()
		for _, key := range created {
			var e state.Entry
			testkit.Until(t, key+" is read", func() bool {
				e, err = b.Get(ctx, key)
				return !errors.Is(err, state.ErrUnavailable)
			})
			if err != nil || string(e.Value) != "first" {
				t.Errorf("%s is %q: %v", key, e.Value, err)
			}
		}
		t.Logf("the disk of %s was full: %d keys, has noticed: %v", s.name, len(created), s.isShort())
	}
}
