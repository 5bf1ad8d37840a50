// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func events() state.StreamOptions {
	return state.StreamOptions{Name: "events", MaxBytes: 16 << 20, MaxAge: time.Hour, DropOldest: true}
}

// busAt is a replica's bus.
func busAt(t *testing.T, n *natsServer, sealer *keys.Sealer, o state.StreamOptions) (*notify.SharedBus, *state.Client) {
	t.Helper()
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), OperationTimeout: durationpb.New(time.Second)}), Sealer: sealer})
	bus := notify.NewSharedBus(c.Stream(o), notify.NewBus(notify.BusOptions{}))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		bus.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	healthy(t, c)
	testkit.Until(t, "the bus takes subscribers", func() bool {
		s, err := bus.Subscribe(nil)
		if err == nil {
			s.Close()
		}
		return err == nil
	})
	return bus, c
}

func numbered(method string, n int) notify.Event {
	return notify.Event{Method: method, Params: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`)}
}

// hears reads the numbers of the next events.
func hears(t *testing.T, s notify.EventSubscription, want ...int) (last uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	for i, n := range want {
		e, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if text := string(e.Params); text != `{"n":`+strconv.Itoa(n)+`}` {
			t.Fatalf("event %d is %s, want number %d", i, text, n)
		}
		last = e.Sequence
	}
	return last
}

func publish(t *testing.T, bus connectapi.EventBus, e notify.Event) int {
	t.Helper()
	n, err := bus.Publish(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBus: what holds for the bus of one process holds for that of the replicas.
func TestBus(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	bus, _ := busAt(t, n, newSealer(t), events())
	for name, bus := range map[string]interface {
		connectapi.EventBus
		Close()
	}{"memory": notify.NewBus(notify.BusOptions{}), "JetStream": bus} {
		t.Run(name, func(t *testing.T) {
			publish(t, bus, numbered("a/b", 0)) // before anybody hears it
			all, err := bus.Subscribe(nil)
			if err != nil {
				t.Fatal(err)
			}
			some, err := bus.Subscribe([]string{"a/*"})
			if err != nil {
				t.Fatal(err)
			}
			if got := publish(t, bus, numbered("a/b", 1)); got != 2 {
				t.Errorf("%d subscribers, want 2", got)
			}
			if got := publish(t, bus, numbered("c", 2)); got != 1 {
				t.Errorf("%d subscribers, want 1", got)
			}
			publish(t, bus, numbered("a/c", 3))
			hears(t, all, 1, 2, 3)
			hears(t, some, 1, 3)
			if _, err := bus.Publish(t.Context(), notify.Event{}); !errors.Is(err, notify.ErrNoMethod) {
				t.Errorf("an event without a method: %v", err)
			}
			var large *notify.TooLargeError
			if _, err := bus.Publish(t.Context(), notify.Event{Method: strings.Repeat("m", notify.MaxMethodBytes+1)}); !errors.As(err, &large) {
				t.Errorf("a long method: %v", err)
			}
			var wrong *notify.FilterError
			if _, err := bus.Subscribe([]string{""}); !errors.As(err, &wrong) {
				t.Errorf("an empty pattern: %v", err)
			}
			some.Close()
			if got := publish(t, bus, notify.Event{Method: "without params"}); got != 1 {
				t.Errorf("%d subscribers, want 1", got)
			}
			if e, err := all.Next(t.Context()); err != nil || e.Params != nil || e.Method != "without params" {
				t.Errorf("%+v, %v", e, err)
			}
			publish(t, bus, numbered("last", 4))
			bus.Close()
			hears(t, all, 4)
			if _, err := all.Next(t.Context()); !errors.Is(err, notify.ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestEveryReplicaHearsEveryPublisher: in the order of each, and all in one order.
func TestEveryReplicaHearsEveryPublisher(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	const replicas, publishers, each = 3, 4, 50
	var buses []*notify.SharedBus
	var subs []notify.EventSubscription
	for range replicas {
		bus, _ := busAt(t, n, sealer, events())
		sub, err := bus.Subscribe(nil)
		if err != nil {
			t.Fatal(err)
		}
		buses, subs = append(buses, bus), append(subs, sub)
	}
	var running sync.WaitGroup
	for p := range publishers {
		running.Go(func() {
			for i := range each {
				if _, err := buses[p%replicas].Publish(t.Context(), numbered(fmt.Sprintf("of/%d", p), i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	var first []string
	for at, sub := range subs {
		var heard []string
		next := map[string]int{}
		for range publishers * each {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"n":` + strconv.Itoa(next[e.Method]) + `}`; string(e.Params) != want {
				t.Fatalf("replica %d, %s: %s, want %s", at, e.Method, e.Params, want)
			}
			next[e.Method]++
			heard = append(heard, fmt.Sprint(e.Sequence, e.Method, string(e.Params)))
		}
		if at == 0 {
			first = heard
		} else if strings.Join(first, "\n") != strings.Join(heard, "\n") {
			t.Errorf("replica %d heard another order than replica 0", at)
		}
	}
}

// TestASubscriberGoesOn: at another replica, after the last event that it has, without a gap and without a repetition, while events come.
func TestASubscriberGoesOn(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, _ := busAt(t, n, sealer, events())
	b, _ := busAt(t, n, sealer, events())
	const total = 300
	done := make(chan struct{})
	first, err := a.Subscribe([]string{"m"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for i := range total {
			_, _ = a.Publish(context.Background(), numbered("other", i))
			if _, err := b.Publish(context.Background(), numbered("m", i)); err != nil {
				t.Error(err)
			}
		}
	}()
	sub, at := first, 0
	for i := range total {
		last := hears(t, sub, i)
		if i%60 != 59 {
			continue
		}
		sub.Close()
		at++
		if sub, err = []*notify.SharedBus{a, b}[at%2].SubscribeAfter(t.Context(), []string{"m"}, last); err != nil {
			t.Fatal(err)
		}
	}
	sub.Close()
	<-done
	all, err := b.SubscribeAfter(t.Context(), []string{"m"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range total {
		hears(t, all, i)
	}
	all.Close()
	var gap *notify.GapError
	if _, err := a.SubscribeAfter(t.Context(), nil, 1<<40); !errors.As(err, &gap) {
		t.Errorf("after an event that is none yet: %v", err)
	}
}

// TestAGapIsTold: a subscriber whose events have been dropped hears of it, and does not go on as if there had been none.
func TestAGapIsTold(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	bus, _ := busAt(t, n, newSealer(t), events())
	log, err := n.admin().Stream(t.Context(), "outrigger_default_events")
	if err != nil {
		t.Fatal(err)
	}
	// dropped has the server drop the events before one.
	dropped := func(first uint64) {
		t.Helper()
		if err := log.Purge(t.Context(), jetstream.WithPurgeSequence(first)); err != nil {
			t.Fatal(err)
		}
	}
	const all = 400
	for i := range all {
		publish(t, bus, numbered("m", i))
	}
	dropped(51)
	var gap *notify.GapError
	if _, err := bus.SubscribeAfter(t.Context(), nil, 5); !errors.As(err, &gap) || gap.First != 51 || gap.Last != all {
		t.Fatalf("got %v", err)
	}
	sub, err := bus.SubscribeAfter(t.Context(), nil, 50)
	if err != nil {
		t.Fatal(err)
	}
	hears(t, sub, 50, 51, 52)
	// The reader is slow. What it would read next is dropped, beyond what was read ahead for it.
	dropped(all)
	var slow *notify.SlowError
	heard := 53
	for ; ; heard++ {
		e, err := sub.Next(t.Context())
		if errors.As(err, &slow) {
			break
		}
		if err != nil || string(e.Params) != `{"n":`+strconv.Itoa(heard)+`}` {
			t.Fatalf("event %d: %+v, %v", heard, e, err)
		}
	}
	if slow.Missed != all-1-heard || slow.Missed == 0 {
		t.Errorf("missed %d events after %d", slow.Missed, heard)
	}
	sub.Close()
}

// TestTheBusWithoutNATS: nothing is acknowledged that is not kept, and subscribers get what came meanwhile.
func TestTheBusWithoutNATS(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, _ := busAt(t, n, sealer, events())
	b, _ := busAt(t, n, sealer, events())
	sub, err := a.Subscribe(nil)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, numbered("m", 0))
	last := hears(t, sub, 0)
	n.stop()
	if _, err := b.Publish(t.Context(), numbered("m", 1)); !errors.Is(err, notify.ErrUnavailable) {
		t.Errorf("publish without NATS: %v", err)
	}
	if _, err := a.SubscribeAfter(t.Context(), nil, last); !errors.Is(err, notify.ErrUnavailable) {
		t.Errorf("going on without NATS: %v", err)
	}
	n.start()
	testkit.Until(t, "publishing works again", func() bool {
		_, err := b.Publish(t.Context(), numbered("m", 2))
		return err == nil
	})
	hears(t, sub, 2)
	if lost := a.Lost(); lost != 0 {
		t.Errorf("%d events were lost", lost)
	}
	sub.Close()
}
