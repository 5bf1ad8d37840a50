// SPDX-License-Identifier: Apache-2.0

package natsmodel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// deployment is clients of internal/state at a model.
type deployment struct {
	t      *testing.T
	driver *natsmodel.Driver
	model  *natsmodel.Cluster
	sealer *keys.Sealer
}

// deploy runs a test in a bubble, with servers of the model.
func deploy(t *testing.T, servers int, f func(d *deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := natsmodel.New(natsmodel.Options{Servers: servers}, time.Now(), rand.New(rand.NewPCG(1, 2)))
		ctx, stop := context.WithCancel(context.Background())
		d := &deployment{t: t, driver: c.Run(ctx), model: c, sealer: keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()})}
		defer stop()
		f(d)
	})
}

// open opens a client of some servers, until the end of the test.
func (d *deployment) open(servers ...int) *state.Client {
	d.t.Helper()
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(d.t)
	}
	c, err := state.Open(state.Options{
		Config: configtest.Filled(d.t, &configv1.State{Url: d.model.URL(servers...), Replicas: new(int32(d.model.Servers()))}),
		Sealer: d.sealer,
		Dialer: d.driver,
		Log:    log,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// run keeps clients usable until the returned function is called.
func run(clients ...*state.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.Run(ctx) })
	}
	return func() {
		cancel()
		all.Wait()
		for _, c := range clients {
			c.Close()
		}
	}
}

func healthy(t *testing.T, clients ...*state.Client) {
	t.Helper()
	for _, c := range clients {
		testkit.Until(t, "the state is available", func() bool { return c.Health().OK })
	}
}

// seen is what a watcher has seen.
type seen struct {
	mu     sync.Mutex
	values map[string]string
	loaded int
}

func (s *seen) watcher() state.Watcher {
	return state.Watcher{
		Changed: func(e state.Entry) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.values[e.Key] = string(e.Value); e.Gone {
				delete(s.values, e.Key)
			}
		},
		Loaded: func() { s.mu.Lock(); s.loaded++; s.mu.Unlock() },
	}
}

func (s *seen) value(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return v, ok
}

// TestState: everything that internal/state does works at one server, and at three.
func TestState(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		t.Run(map[int]string{1: "one", 3: "three"}[servers], func(t *testing.T) {
			t.Parallel()
			deploy(t, servers, func(d *deployment) { d.everything() })
		})
	}
}

func (d *deployment) everything() {
	t, ctx := d.t, d.t.Context()
	a, b := d.open(0), d.open(d.model.Servers()-1)
	things := state.BucketOptions{Name: "things", MaxBytes: 1 << 20, MaxAge: time.Hour}
	at, other := a.Bucket(things), b.Bucket(things)
	events := state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour}
	log, reader := a.Stream(events), b.Stream(events)
	tokens := state.OnceOptions{Name: "consents", MaxBytes: 1 << 20, MaxAge: time.Hour}
	once, again := a.Once(tokens), b.Once(tokens)
	channel, far := a.Channel("replicas"), b.Channel("replicas")
	defer run(a, b)()
	healthy(t, a, b)

	watching, stop := context.WithCancel(ctx)
	defer stop()
	w := &seen{values: map[string]string{}}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { other.Watch(watching, w.watcher()) })
	testkit.Until(t, "an empty bucket is loaded", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.loaded == 1 })

	first, err := at.Create(ctx, "k", []byte("one"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Create(ctx, "k", []byte("two"), time.Minute); !errors.Is(err, state.ErrExists) {
		t.Errorf("create again: %v", err)
	}
	if e, err := other.Get(ctx, "k"); err != nil || string(e.Value) != "one" || e.Revision != first {
		t.Errorf("get: %+v, %v", e, err)
	}
	second, err := other.Update(ctx, "k", []byte("two"), first, time.Minute)
	if err != nil || second <= first {
		t.Fatalf("update: %d, %v", second, err)
	}
	if _, err := at.Update(ctx, "k", []byte("three"), first, time.Minute); !errors.Is(err, state.ErrConflict) {
		t.Errorf("update of an old revision: %v", err)
	}
	if _, err := at.Get(ctx, "none"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("get of nothing: %v", err)
	}
	testkit.Until(t, "the watcher sees the update", func() bool { v, _ := w.value("k"); return v == "two" })
	if _, err := at.Create(ctx, "d", []byte("gone soon"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := at.Delete(ctx, "d", 0); err != nil {
		t.Error(err)
	}
	if _, err := at.Get(ctx, "d"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("get of what was deleted: %v", err)
	}
	if _, err := at.Restore(ctx, "d", []byte("back"), time.Minute); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("restore of what was deleted: %v", err)
	}
	time.Sleep(2 * time.Minute)
	if _, err := at.Get(ctx, "k"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("get after the lifetime: %v", err)
	}
	testkit.Until(t, "the watcher sees the end", func() bool { _, is := w.value("k"); return !is })
	if _, err := at.Create(ctx, "k", []byte("anew"), time.Minute); err != nil {
		t.Errorf("create after the end: %v", err)
	}

	if ok, err := once.Spend(ctx, "token", time.Now().Add(time.Minute)); err != nil || !ok {
		t.Errorf("first use: %t, %v", ok, err)
	}
	if ok, err := again.Spend(ctx, "token", time.Now().Add(time.Minute)); err != nil || ok {
		t.Errorf("second use: %t, %v", ok, err)
	}

	var got []string
	var mu sync.Mutex
	all.Go(func() {
		_, _ = reader.Read(watching, ">", 1, func(m state.Message) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(m.Data))
			return nil
		})
	})
	for _, text := range []string{"x", "y"} {
		if _, err := log.Append(ctx, "e", []byte(text)); err != nil {
			t.Error(err)
		}
	}
	testkit.Until(t, "both are read", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(got, []string{"x", "y"})
	})
	if is, err := reader.Bounds(ctx); err != nil || is.Last != 2 || !is.Led {
		t.Errorf("bounds: %+v, %v", is, err)
	}

	all.Go(func() {
		far.Serve(watching, "far", func(data []byte) []byte { return append([]byte("heard "), data...) })
	})
	testkit.Until(t, "the other replica answers", func() bool {
		answer, err := channel.Ask(ctx, "far", []byte("me"))
		return err == nil && string(answer) == "heard me"
	})
	if _, err := channel.Ask(ctx, "none", nil); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("ask where nothing serves: %v", err)
	}
}
