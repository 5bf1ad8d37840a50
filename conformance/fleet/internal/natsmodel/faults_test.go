// SPDX-License-Identifier: Apache-2.0

package natsmodel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	thingsStream = "KV_outrigger_default_things"
	thingsPrefix = "$KV.outrigger_default_things."
)

func things() state.BucketOptions {
	return state.BucketOptions{Name: "things", MaxBytes: 1 << 20, MaxAge: time.Hour}
}

// leader waits until a stream has a leader, and returns it with the other servers.
func (d *deployment) leader(stream string) (at int, others []int) {
	d.t.Helper()
	testkit.Until(d.t, "there is a leader", func() bool {
		d.driver.Do(func(c *natsmodel.Cluster) { at = c.Leader(stream) })
		return at >= 0
	})
	for i := range d.model.Servers() {
		if i != at {
			others = append(others, i)
		}
	}
	return at, others
}

// raw connects without internal/state.
func (d *deployment) raw(servers ...int) (*nats.Conn, jetstream.JetStream) {
	d.t.Helper()
	nc, err := nats.Connect(d.model.URL(servers...), nats.SetCustomDialer(d.driver), nats.MaxReconnects(-1))
	if err != nil {
		d.t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		d.t.Fatal(err)
	}
	return nc, js
}

// TestFaults: what a fault does to clients, and that it ends with its mend.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(*deployment)
	}{
		{"a leader that was paused", (*deployment).pausedLeader},
		{"a leader that is cut off", (*deployment).cutOffLeader},
		{"a write that is stuck", (*deployment).stuckWrite},
		{"a full disk", (*deployment).fullDisk},
		{"a lost acknowledgement", (*deployment).lostAck},
		{"a wiped follower", (*deployment).wipedFollower},
		{"a flipped bit", (*deployment).flippedBit},
		{"a truncated block", (*deployment).truncatedBlock},
		{"a clean end", (*deployment).cleanEnd},
		{"no majority", (*deployment).noMajority},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			deploy(t, 3, tc.do)
		})
	}
}

// pausedLeader: it answers what it was asked meanwhile from its old view, once.
func (d *deployment) pausedLeader() {
	t, ctx := d.t, d.t.Context()
	c := d.open(0)
	b := c.Bucket(things())
	stop := run(c)
	healthy(t, c)
	revision, err := b.Create(ctx, "k", []byte("old"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	at, others := d.leader(thingsStream)
	nc, js := d.raw(at)
	defer nc.Close()
	stream, err := js.Stream(ctx, thingsStream)
	if err != nil {
		t.Fatal(err)
	}
	rest := d.open(others...)
	b = rest.Bucket(things())
	defer run(rest)()
	healthy(t, rest)
	d.driver.Do(func(c *natsmodel.Cluster) { c.Pause(at) })
	answers := make(chan uint64, 1)
	go func() {
		within, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		raw, err := stream.GetLastMsgForSubject(within, thingsPrefix+"k")
		if err != nil {
			t.Error(err)
			raw = &jetstream.RawStreamMsg{}
		}
		answers <- raw.Sequence
	}()
	var updated uint64
	testkit.Until(t, "the others have a leader", func() bool {
		updated, err = b.Update(ctx, "k", []byte("new"), revision, time.Hour)
		return err == nil
	})
	d.driver.Do(func(c *natsmodel.Cluster) { c.Resume(at) })
	if got := <-answers; got != revision {
		t.Errorf("the former leader answers with revision %d, not with its own %d", got, revision)
	}
	testkit.Until(t, "it has heard of its successor", func() bool {
		raw, err := stream.GetLastMsgForSubject(ctx, thingsPrefix+"k")
		return err == nil && raw.Sequence == updated
	})
}

// cutOffLeader: internal/state believes nothing that it says.
func (d *deployment) cutOffLeader() {
	t, ctx := d.t, d.t.Context()
	maker := d.open()
	maker.Bucket(things())
	stop := run(maker)
	healthy(t, maker)
	stop()
	at, others := d.leader(thingsStream)
	alone, rest := d.open(at), d.open(others...)
	cutOff, majority := alone.Bucket(things()), rest.Bucket(things())
	defer run(alone, rest)()
	healthy(t, alone, rest)
	d.driver.Do(func(c *natsmodel.Cluster) { c.Cut(at, others[0]); c.Cut(at, others[1]) })
	testkit.Until(t, "the others have a leader", func() bool {
		_, err := majority.Create(ctx, "k", []byte("v"), time.Hour)
		return err == nil || errors.Is(err, state.ErrExists)
	})
	for range 30 {
		if _, err := cutOff.Get(ctx, "k"); !errors.Is(err, state.ErrUnavailable) {
			t.Fatalf("a key that the others have stored, at the leader that is cut off: %v", err)
		}
		time.Sleep(time.Second / 2)
	}
	d.driver.Do(func(c *natsmodel.Cluster) { c.Heal(at, others[0]); c.Heal(at, others[1]) })
	testkit.Until(t, "the value is read when the way is mended", func() bool {
		e, err := cutOff.Get(ctx, "k")
		if errors.Is(err, state.ErrNotFound) {
			t.Fatal("it is not found")
		}
		return err == nil && string(e.Value) == "v"
	})
}

// stuckWrite: a leader that is cut off refuses a write of a key because another one is on its way, which will never be stored. Then
// the key does not count as taken.
func (d *deployment) stuckWrite() {
	t, ctx := d.t, d.t.Context()
	maker := d.open()
	maker.Bucket(things())
	stop := run(maker)
	healthy(t, maker)
	stop()
	at, others := d.leader(thingsStream)
	one, two := d.open(at), d.open(at)
	first, second := one.Bucket(things()), two.Bucket(things())
	defer run(one, two)()
	healthy(t, one, two)
	d.driver.Do(func(c *natsmodel.Cluster) { c.Cut(at, others[0]); c.Cut(at, others[1]) })
	for _, b := range []*state.Bucket{first, second} {
		if _, err := b.Create(ctx, "k", []byte("v"), time.Hour); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("a key that was never stored: %v", err)
		}
	}
	d.driver.Do(func(c *natsmodel.Cluster) { c.Heal(at, others[0]); c.Heal(at, others[1]) })
}

// fullDisk: JetStream is off at that server, the others go on, and it catches up after a restart.
func (d *deployment) fullDisk() {
	t, ctx := d.t, d.t.Context()
	c := d.open()
	b := c.Bucket(things())
	defer run(c)()
	healthy(t, c)
	at, _ := d.leader(thingsStream)
	d.driver.Do(func(c *natsmodel.Cluster) { c.Fill(at) })
	testkit.Until(t, "a write succeeds at the others", func() bool {
		_, err := b.Create(ctx, "k", []byte("v"), time.Hour)
		return err == nil || errors.Is(err, state.ErrExists)
	})
	if now, _ := d.leader(thingsStream); now == at {
		t.Error("the server without room still leads")
	}
	d.driver.Do(func(c *natsmodel.Cluster) { c.Free(at); c.Stop(at, natsmodel.Term); c.Start(at) })
	d.whole()
}

// whole waits until all copies are current.
func (d *deployment) whole() {
	d.t.Helper()
	nc, js := d.raw()
	defer nc.Close()
	testkit.Until(d.t, "all copies are current", func() bool {
		s, err := js.Stream(d.t.Context(), thingsStream)
		if err != nil || s.CachedInfo().Cluster.Leader == "" || len(s.CachedInfo().Cluster.Replicas) != 2 {
			return false
		}
		for _, p := range s.CachedInfo().Cluster.Replicas {
			if !p.Current || p.Offline {
				return false
			}
		}
		return true
	})
}

func (d *deployment) lostAck() {
	t, ctx := d.t, d.t.Context()
	c := d.open()
	b := c.Bucket(things())
	once := c.Once(state.OnceOptions{Name: "consents", MaxBytes: 1 << 20, MaxAge: time.Hour})
	defer run(c)()
	healthy(t, c)
	lose := func(stream string) {
		at, _ := d.leader(stream)
		d.driver.Do(func(c *natsmodel.Cluster) { c.LoseAck(at) })
	}
	lose(thingsStream)
	if _, err := b.Create(ctx, "k", []byte("v"), time.Hour); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a write whose acknowledgement is lost: %v", err)
	}
	if _, err := b.Create(ctx, "k", []byte("v"), time.Hour); !errors.Is(err, state.ErrExists) {
		t.Errorf("it has happened: %v", err)
	}
	lose("KV_outrigger_default_consents")
	if ok, err := once.Spend(ctx, "token", time.Now().Add(time.Minute)); err != nil || !ok {
		t.Errorf("a token whose acknowledgement is lost: %t, %v", ok, err)
	}
}

func (d *deployment) wipedFollower() {
	t, ctx := d.t, d.t.Context()
	c := d.open()
	b := c.Bucket(things())
	defer run(c)()
	healthy(t, c)
	for n := range 20 {
		if _, err := b.Create(ctx, fmt.Sprint(n), []byte("v"), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	_, others := d.leader(thingsStream)
	wiped := false
	d.driver.Do(func(c *natsmodel.Cluster) {
		c.Stop(others[0], natsmodel.Kill)
		wiped = c.Wipe(others[0])
		c.Start(others[0])
	})
	if !wiped {
		t.Error("it was not wiped")
	}
	d.whole()
	d.driver.Do(func(c *natsmodel.Cluster) { c.Stop(others[1], natsmodel.Kill) })
	testkit.Until(t, "the wiped server leads, and has everything", func() bool {
		at, _ := d.leader(thingsStream)
		if at != others[0] {
			d.driver.Do(func(c *natsmodel.Cluster) { c.StepDown(thingsStream) })
			return false
		}
		_, err := b.Get(ctx, "19")
		return err == nil
	})
}

// damaged writes ten keys, damages a copy of them, and returns where.
func (d *deployment) damaged(b *state.Bucket, how func(c *natsmodel.Cluster, server int, stream string) bool) (at int) {
	t := d.t
	for n := range 10 {
		if _, err := b.Create(t.Context(), fmt.Sprint(n), []byte("v"), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	_, others := d.leader(thingsStream)
	d.driver.Do(func(c *natsmodel.Cluster) {
		c.Stop(others[0], natsmodel.Term)
		if !how(c, others[0], thingsStream) {
			t.Error("nothing was damaged")
		}
		c.Start(others[0])
	})
	return others[0]
}

// found counts the keys that are found while a server leads. The others are not found.
func (d *deployment) found(b *state.Bucket, at int) (n int) {
	d.t.Helper()
	testkit.Until(d.t, "it leads", func() bool {
		now, _ := d.leader(thingsStream)
		if now != at {
			d.driver.Do(func(c *natsmodel.Cluster) { c.StepDown(thingsStream) })
		}
		return now == at
	})
	for i := range 10 {
		var err error
		testkit.Until(d.t, "an answer", func() bool {
			_, err = b.Get(d.t.Context(), fmt.Sprint(i))
			return !errors.Is(err, state.ErrUnavailable)
		})
		if err == nil {
			n++
		}
	}
	return n
}

// flippedBit: the server takes no part until it is wiped.
func (d *deployment) flippedBit() {
	c := d.open()
	b := c.Bucket(things())
	defer run(c)()
	healthy(d.t, c)
	at := d.damaged(b, (*natsmodel.Cluster).FlipBit)
	time.Sleep(15 * time.Second)
	nc, js := d.raw()
	defer nc.Close()
	s, err := js.Stream(d.t.Context(), thingsStream)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, p := range s.CachedInfo().Cluster.Replicas {
		if p.Name == d.model.Name(at) && p.Current {
			d.t.Errorf("it takes part: %+v", p)
		}
	}
	d.driver.Do(func(c *natsmodel.Cluster) { c.Stop(at, natsmodel.Kill); c.Wipe(at); c.Start(at) })
	d.whole()
	if n := d.found(b, at); n != 10 {
		d.t.Errorf("%d of 10 keys are found there", n)
	}
}

// truncatedBlock: the server leads, and says that half of it does not exist.
func (d *deployment) truncatedBlock() {
	c := d.open()
	b := c.Bucket(things())
	defer run(c)()
	healthy(d.t, c)
	at := d.damaged(b, (*natsmodel.Cluster).Truncate)
	d.whole()
	if n := d.found(b, at); n >= 10 {
		d.t.Errorf("%d of 10 keys are found at the damaged copy", n)
	}
	if n := d.found(b, (at+1)%3); n != 10 {
		d.t.Errorf("%d of 10 keys are found at another", n)
	}
}

// cleanEnd: the others lead at once, and say that it is offline.
func (d *deployment) cleanEnd() {
	t := d.t
	c := d.open()
	c.Bucket(things())
	stop := run(c)
	healthy(t, c)
	stop()
	at, others := d.leader(thingsStream)
	began := time.Now()
	d.driver.Do(func(c *natsmodel.Cluster) { c.Stop(at, natsmodel.Term) })
	d.leader(thingsStream)
	if took := time.Since(began); took > time.Second {
		t.Errorf("the others lead after %v", took)
	}
	nc, js := d.raw(others...)
	defer nc.Close()
	s, err := js.Stream(t.Context(), thingsStream)
	if err != nil {
		t.Fatal(err)
	}
	offline := 0
	for _, p := range s.CachedInfo().Cluster.Replicas {
		if p.Offline {
			offline++
		}
	}
	if offline != 1 {
		t.Errorf("%d are offline: %+v", offline, s.CachedInfo().Cluster)
	}
}

// noMajority: reads and writes fail in time, with errors and not with silence.
func (d *deployment) noMajority() {
	t, ctx := d.t, d.t.Context()
	c := d.open()
	b := c.Bucket(things())
	defer run(c)()
	healthy(t, c)
	at, others := d.leader(thingsStream)
	d.driver.Do(func(c *natsmodel.Cluster) { c.Stop(others[0], natsmodel.Kill); c.Stop(others[1], natsmodel.Kill) })
	time.Sleep(25 * time.Second)
	nc, js := d.raw(at)
	defer nc.Close()
	var api *jetstream.APIError
	if _, err := js.AccountInfo(ctx); !errors.As(err, &api) || api.ErrorCode != 10008 {
		t.Errorf("account: %v", err)
	}
	if _, err := js.Publish(ctx, thingsPrefix+"k", nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("publish: %v", err)
	}
	if _, err := b.Get(ctx, "k"); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	d.driver.Do(func(c *natsmodel.Cluster) { c.Start(others[0]) })
	testkit.Until(t, "two of three go on", func() bool {
		_, err := b.Create(ctx, "k", nil, time.Hour)
		return err == nil
	})
}
