// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func things() state.BucketOptions {
	return state.BucketOptions{Name: "things", MaxBytes: 4 << 20, MaxAge: time.Hour}
}

// TestBucket takes one key through its life.
func TestBucket(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	b := c.Bucket(things())
	healthy(t, c)
	ctx := t.Context()
	if _, err := b.Get(ctx, "k"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("get before create: %v", err)
	}
	first, err := b.Create(ctx, "k", []byte("one"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(ctx, "k", []byte("other"), time.Hour); !errors.Is(err, state.ErrExists) {
		t.Errorf("create twice: %v", err)
	}
	second, err := b.Update(ctx, "k", []byte("two"), first, time.Hour)
	if err != nil || second <= first {
		t.Fatalf("update: revision %d after %d, %v", second, first, err)
	}
	if _, err := b.Update(ctx, "k", []byte("three"), first, time.Hour); !errors.Is(err, state.ErrConflict) {
		t.Errorf("update of an old revision: %v", err)
	}
	if e, err := b.Get(ctx, "k"); err != nil || string(e.Value) != "two" || e.Revision != second {
		t.Errorf("get: %q at %d, %v", e.Value, e.Revision, err)
	}
	if err := b.Delete(ctx, "k", first); !errors.Is(err, state.ErrConflict) {
		t.Errorf("delete of an old revision: %v", err)
	}
	if err := b.Delete(ctx, "k", second); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := b.Get(ctx, "k"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("get after delete: %v", err)
	}
	if _, err := b.Update(ctx, "k", []byte("three"), second, time.Hour); !errors.Is(err, state.ErrConflict) {
		t.Errorf("update after delete: %v", err)
	}
	if _, err := b.Create(ctx, "k", []byte("again"), time.Hour); err != nil {
		t.Errorf("create after delete: %v", err)
	}
	if _, err := b.Get(ctx, "a key"); err == nil {
		t.Error("a key with a space was accepted")
	}
}

// renewed renews a value for twice its lifetime. It reports whether it was late where that fails.
func renewed(t *testing.T, b *state.Bucket, life time.Duration) (isLate bool, err error) {
	t.Helper()
	last := time.Now()
	revision, err := b.Create(t.Context(), "renewed", []byte("1"), life)
	for n := 0; n < 4 && err == nil; n++ {
		time.Sleep(life / 2)
		isLate = time.Since(last) > life*3/4
		last = time.Now()
		revision, err = b.Update(t.Context(), "renewed", []byte("1"), revision, life)
	}
	return isLate, err
}

// TestLifetimes lets what was written once, renewed and updated expire: nats.go's own
// Update would make it stay for ever (nats.go#1994).
func TestLifetimes(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	b := c.Bucket(things())
	healthy(t, c)
	var mu sync.Mutex
	gone := map[string]bool{}
	go b.Watch(t.Context(), state.Watcher{Changed: func(e state.Entry) {
		mu.Lock()
		defer mu.Unlock()
		gone[e.Key] = e.Gone
	}})
	if _, err := b.Create(t.Context(), "once", []byte("1"), time.Second); err != nil {
		t.Fatal(err)
	}
	for life := time.Second; ; life *= 2 { // on a busy machine a renewal may come too late
		isLate, err := renewed(t, b, life)
		if err == nil {
			break
		}
		if !isLate || life > 16*time.Second {
			t.Fatalf("a value of %v: %v", life, err)
		}
	}
	if _, err := b.Get(t.Context(), "once"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("a value of one second, after two: %v", err)
	}
	testkit.Until(t, "the renewed value expires, and watchers hear of it", func() bool {
		_, err := b.Get(t.Context(), "renewed")
		mu.Lock()
		defer mu.Unlock()
		return errors.Is(err, state.ErrNotFound) && gone["renewed"] && gone["once"]
	})
	// The key is free again although NATS still remembers its end.
	if _, err := b.Create(t.Context(), "once", []byte("2"), time.Hour); err != nil {
		t.Errorf("create after the end: %v", err)
	}
}

// TestSealed: what is stored shows nothing, and does not open at another key or with
// another secret.
func TestSealed(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", []byte("a secret result"), time.Hour); err != nil {
		t.Fatal(err)
	}
	js := n.admin()
	s, err := js.Stream(t.Context(), "KV_outrigger_default_things")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.GetLastMsgForSubject(t.Context(), "$KV.outrigger_default_things.k")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw.Data), "secret") || raw.Data[0] != 1 {
		t.Errorf("stored as %q", raw.Data)
	}
	if _, err := js.Publish(t.Context(), "$KV.outrigger_default_things.moved", raw.Data); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "moved"); !errors.Is(err, state.ErrUnreadable) {
		t.Errorf("a value moved to another key: %v", err)
	}
	if _, err := js.Publish(t.Context(), "$KV.outrigger_default_things.newer", append([]byte{2}, raw.Data[1:]...)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "newer"); !errors.Is(err, state.ErrUnreadable) || !strings.Contains(err.Error(), "unknown to this release") {
		t.Errorf("a value of a newer format: %v", err)
	}
	other := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})}).Bucket(things())
	testkit.Until(t, "the other replica finds the bucket", func() bool {
		_, err = other.Get(t.Context(), "k")
		return !errors.Is(err, state.ErrUnavailable)
	})
	if !errors.Is(err, state.ErrUnreadable) || !strings.Contains(err.Error(), "--state-key") {
		t.Errorf("another secret: %v", err)
	}
}

// TestFull: a bucket that is full takes nothing more, and says so.
func TestFull(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	small := things()
	small.MaxBytes, small.MaxValueBytes = 64<<10, 8<<10
	b := c.Bucket(small)
	healthy(t, c)
	if _, err := b.Create(t.Context(), "huge", make([]byte, 10<<10), time.Hour); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("a value above the bound of one: %v", err)
	}
	var err error
	for i := range 20 {
		if _, err = b.Create(t.Context(), "k"+string(rune('a'+i)), make([]byte, 7<<10), time.Hour); err != nil {
			break
		}
	}
	if !errors.Is(err, state.ErrFull) {
		t.Errorf("140 KiB in a bucket of 64 KiB: %v", err)
	}
	if !c.Health().OK {
		t.Error("a full bucket is no outage")
	}
}

// TestAway: NATS is not there at the start, comes, goes, and comes back empty. Operations
// fail at once meanwhile, and watchers miss nothing.
func TestAway(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	n.stop()
	core, lines := observer.New(zapcore.InfoLevel)
	const timeout = 20 * time.Second // which what is refused at once does not use up
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), OperationTimeout: durationpb.New(timeout)}), Log: zap.New(core)})
	b := c.Bucket(things())
	var mu sync.Mutex
	seen, resets := map[string]string{}, 0
	go b.Watch(t.Context(), state.Watcher{
		Changed: func(e state.Entry) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Key] = string(e.Value)
		},
		Reset: func() {
			mu.Lock()
			defer mu.Unlock()
			resets++
		},
	})
	sees := func(key, value string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[key] == value
		}
	}
	count := func(message string) int { return lines.FilterMessageSnippet(message).Len() }
	testkit.Until(t, "one warning", func() bool { return count("shared state unavailable") == 1 })
	began := time.Now()
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("get without NATS: %v", err)
	}
	if took := time.Since(began); took > timeout/2 {
		t.Errorf("an operation without NATS took %v", took)
	}
	n.start()
	healthy(t, c)
	revision, err := b.Create(t.Context(), "k", []byte("one"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the watcher sees it", sees("k", "one"))
	n.stop()
	testkit.Until(t, "the outage is noticed", func() bool { return !c.Health().OK })
	n.start()
	healthy(t, c)
	if _, err := b.Update(t.Context(), "k", []byte("two"), revision, time.Hour); err != nil {
		t.Fatalf("update after the restart: %v", err)
	}
	testkit.Until(t, "the watcher goes on", sees("k", "two"))
	if unavailable, available := count("shared state unavailable"), count("shared state available"); unavailable != 2 || available != 2 {
		t.Errorf("%d warnings and %d lines of recovery, want 2 each: %v", unavailable, available, lines.All())
	}
	// An operator deletes the bucket. NATS must have time for that before it is made anew.
	deleted := time.Now()
	if err := n.admin().DeleteStream(t.Context(), "KV_outrigger_default_things"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the bucket is made anew", func() bool {
		_, err := b.Create(t.Context(), "after", []byte("new"), time.Hour)
		return err == nil || errors.Is(err, state.ErrExists) // one that failed may have happened
	})
	s, err := n.admin().Stream(t.Context(), "KV_outrigger_default_things")
	if err != nil {
		t.Fatal(err)
	}
	if after := s.CachedInfo().Created.Sub(deleted); after < 2*time.Second {
		t.Errorf("it was made anew %v after it was deleted, which breaks it in some runs", after)
	}
	testkit.Until(t, "the watcher begins anew", sees("after", "new"))
	mu.Lock()
	defer mu.Unlock()
	if resets != 1 {
		t.Errorf("%d resets, want 1", resets)
	}
}

// TestReadyMade: buckets that an operator made are used if they keep the promises, and
// refused with the reason if not.
func TestReadyMade(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	js := n.admin()
	ours := jetstream.StreamConfig{
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		AllowRollup: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute, MaxBytes: 1 << 20,
	}
	for i, tc := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string
	}{
		{name: "as it should be", change: func(*jetstream.StreamConfig) {}},
		{name: "direct", change: func(c *jetstream.StreamConfig) { c.AllowDirect = true }, want: "allow_direct"},
		{name: "history", change: func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, want: "max_msgs_per_subject"},
		{name: "without markers", change: func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 0 }, want: "subject_delete_marker_ttl"},
		{name: "discards old values", change: func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, want: "discard"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := ours
			tc.change(&config)
			// Each has its own name: NATS may still be removing the files of a stream that was deleted.
			deployment := fmt.Sprintf("shop%d", i)
			config.Name, config.Subjects = "KV_outrigger_"+deployment+"_things", []string{"$KV.outrigger_" + deployment + "_things.>"}
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), Name: new(deployment)})})
			b := c.Bucket(things())
			if tc.want == "" {
				healthy(t, c)
				if _, err := b.Create(t.Context(), "k", nil, time.Hour); err != nil {
					t.Error(err)
				}
				return
			}
			testkit.Until(t, "the reason is "+tc.want, func() bool { return strings.Contains(c.Health().Why, tc.want) })
			if _, err := b.Create(t.Context(), "k", nil, time.Hour); !errors.Is(err, state.ErrUnavailable) {
				t.Errorf("create: %v", err)
			}
		})
	}
}
