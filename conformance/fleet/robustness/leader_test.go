// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// open opens a client of the state at some servers, until the end of the test.
func open(t *testing.T, sealer *keys.Sealer, all ...*natsServer) *state.Client {
	t.Helper()
	var urls []string
	for _, s := range all {
		urls = append(urls, "nats://"+s.client)
	}
	c, err := state.Open(state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(servers))}), Sealer: sealer})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		c.Close()
	})
	return c
}

// TestALeaderThatIsCutOff goes on answering from what it has. No one learns that what the others have stored does not
// exist.
func TestALeaderThatIsCutOff(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, loopback)
	sealer := keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()})
	maker := open(t, sealer, cluster.all...)
	things, events := state.BucketOptions{Name: "things", MaxBytes: 1 << 20, MaxAge: time.Hour}, state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour}
	maker.Bucket(things)
	maker.Stream(events)
	testkit.Until(t, "the state is available", func() bool { return maker.Health().OK })
	cluster.whole()
	at := cluster.leader("KV_outrigger_default_things")
	if at == nil {
		t.Fatal("no leader")
	}
	var others []*natsServer
	for _, s := range cluster.all {
		if s != at {
			others = append(others, s)
		}
	}
	alone, rest := open(t, sealer, at), open(t, sealer, others...)
	cutOff, majority := alone.Bucket(things), rest.Bucket(things)
	log := alone.Stream(events)
	testkit.Until(t, "both are available", func() bool { return alone.Health().OK && rest.Health().OK })
	testkit.Until(t, "the leader of the events is followed", func() bool {
		is, err := log.Bounds(t.Context())
		return err == nil && is.Led
	})
	for i, s := range cluster.all {
		for j, l := range s.routes {
			if cluster.all[i] == at || cluster.all[j] == at {
				l.cut()
			}
		}
	}
	testkit.Until(t, "the others have a leader", func() bool {
		_, err := majority.Create(t.Context(), "k", []byte("v"), time.Hour)
		return err == nil || errors.Is(err, state.ErrExists)
	})
	// The leader that is cut off gives up after ten seconds or more.
	for until := time.Now().Add(12 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if _, err := cutOff.Get(t.Context(), "k"); !errors.Is(err, state.ErrUnavailable) {
			t.Fatalf("a key that the others have stored, at the leader that is cut off: %v", err)
		}
		if is, err := log.Bounds(t.Context()); err == nil && is.Led {
			t.Fatalf("a server that is cut off says that it leads: %+v", is)
		}
	}
	for _, s := range cluster.all {
		for _, l := range s.routes {
			l.mend()
		}
	}
	testkit.Until(t, "the value is read when the way is mended", func() bool {
		e, err := cutOff.Get(t.Context(), "k")
		if errors.Is(err, state.ErrNotFound) {
			t.Fatal("it is not found")
		}
		return err == nil && string(e.Value) == "v"
	})
}
