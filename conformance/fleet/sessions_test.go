// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/sessionstore"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// keeper is a session manager of its own process, as far as others can tell.
type keeper struct {
	*session.Manager
	client *state.Client
	store  *sessionstore.Store
	wire   *wire

	mu        sync.Mutex
	cancelled []string
	ended     []session.Ended
	origins   atomic.Uint64
}

// startKeeper starts one that reaches NATS over a wire of its own.
func startKeeper(t testing.TB, n *natsServer, sealer *seal.Sealer, o session.Options) *keeper {
	t.Helper()
	held := lease
	if o.MaxStreams > 0 { // for thousands at a time, beside which a lease is renewed late
		held = testkit.Limit()
	}
	return startKeeperFor(t, n, sealer, held, o)
}

// startKeeperFor is startKeeper with another lease.
func startKeeperFor(t testing.TB, n *natsServer, sealer *seal.Sealer, lease time.Duration, o session.Options) *keeper {
	t.Helper()
	k := &keeper{}
	var url string
	k.wire, url = newWire(t, n.URL())
	within := 500 * time.Millisecond
	if o.MaxStreams > 0 { // for thousands at a time
		within = testkit.Limit()
	}
	k.client = open(t, state.Options{URL: url, Sealer: sealer, Timeout: within})
	leases := taskstore.New(k.client, taskstore.Options{Lease: lease})
	k.store = sessionstore.New(k.client, leases, sessionstore.Options{MaxBytes: 8 << 20, MaxEventBytes: 32 << 20, OnError: func(err error) { t.Error(err) }})
	if w, ok := o.Store.(*waver); ok {
		w.Store = k.store
	} else {
		o.Store = k.store
	}
	o.Orphaned = func(b session.Begun) []byte {
		return []byte("unknown outcome of " + string(b.RequestID) + " " + b.Tool)
	}
	o.Cancel = func(_ correlate.Origin, id []byte, _ string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.cancelled = append(k.cancelled, string(id))
	}
	o.Ended = func(e session.Ended) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ended = append(k.ended, e)
	}
	k.Manager = session.New(o)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { leases.Run(ctx) })
	all.Go(func() { k.Run(ctx) })
	t.Cleanup(func() {
		k.Close()
		stop()
		all.Wait()
	})
	healthy(t, k.client)
	testkit.Until(t, "it has a lease", func() bool { return leases.Stats().Owners > 0 })
	return k
}

func (k *keeper) origin() correlate.Origin { return correlate.Origin(k.origins.Add(1)) }

// open opens a session, which is in use until the end of the test.
func (k *keeper) open(t testing.TB) *session.Session {
	t.Helper()
	s, err := k.OpenShared(t.Context(), "alice", &outriggerv1.RequestContext{ProtocolVersion: "2025-11-25"}, k.origin())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *keeper) use(t *testing.T, id string) *session.Session {
	t.Helper()
	s, err := k.Use(t.Context(), "alice", id, k.origin)
	if err != nil {
		t.Fatalf("use: %v", err)
	}
	return s
}

// resume reads on at a replica until the end of the stream, or for n events.
func resume(t *testing.T, s *session.Session, id string, n int) (messages []string) {
	t.Helper()
	r, err := s.Resume(t.Context(), id)
	if err != nil {
		t.Fatalf("resume %s: %v", id, err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	for len(messages) < n {
		e, err := r.Next(ctx)
		if errors.Is(err, session.ErrEnded) {
			return messages
		}
		if err != nil {
			t.Fatalf("after %q: %v", messages, err)
		}
		messages = append(messages, string(e.Message))
	}
	return messages
}

// poll reads the id of the next event, which is there.
func poll(t *testing.T, r *session.Reader) string {
	t.Helper()
	e, ok, err := r.Poll()
	if !ok || err != nil {
		t.Fatalf("nothing to read: %v", err)
	}
	return e.ID
}

var aCall = session.Begun{RequestID: []byte(`"r1"`), Tool: "shop.pay"}

// TestAFormerOwnerOfAStreamIsFenced: a replica that was cut off from NATS for longer than its
// lease comes back after another one has answered its request.
func TestAFormerOwnerOfAStreamIsFenced(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{}), startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	if err := st.Send([]byte("one")); err != nil {
		t.Fatal(err)
	}
	a.wire.cut()
	there := b.use(t, s.ID())
	defer there.Release()
	if got, want := resume(t, there, first, 9), []string{"one", `unknown outcome of "r1" shop.pay`}; !slices.Equal(got, want) {
		t.Errorf("at the other replica: %q, want %q", got, want)
	}
	a.wire.mend()
	healthy(t, a.client)
	if err := st.Finish([]byte("too late")); !errors.Is(err, session.ErrEnded) {
		t.Errorf("the former owner sends: %v", err)
	}
	a.mu.Lock()
	cancelled := slices.Clone(a.cancelled)
	a.mu.Unlock()
	if !slices.Equal(cancelled, []string{`"r1"`}) {
		t.Errorf("cancelled: %q", cancelled)
	}
	for name, at := range map[string]*session.Session{"the former owner": s, "the other": there} {
		if got := resume(t, at, first, 9); len(got) != 2 || got[1] == "too late" {
			t.Errorf("%s tells %q", name, got)
		}
	}
}

// TestAnOutageEndsNoStream: NATS is away until the leases of all replicas have ended. The first replica that is back neither
// answers the request of one that comes back later, nor takes what the client answers to it for late.
func TestAnOutageEndsNoStream(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	const held = 8 * time.Second // for the second one to come back before it has departed
	a, b := startKeeperFor(t, n, sealer, held, session.Options{}), startKeeperFor(t, n, sealer, held, session.Options{})
	judge := startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	there := b.use(t, s.ID())
	defer there.Release()
	reader, err := there.Resume(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	question, answered := make(chan []byte, 1), make(chan error, 1)
	go func() {
		_, err := s.Ask(t.Context(), func(m []byte) error { question <- m; return nil }, "elicitation/create", []byte("{}"))
		answered <- err
	}()
	var asked struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(<-question, &asked); err != nil {
		t.Fatal(err)
	}
	answer := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, asked.ID), jsonrpc.ProfileMCP, jsonrpc.Limits{})

	a.wire.cut()
	b.wire.cut()
	for name, k := range map[string]*keeper{"one": a, "the other": b} {
		testkit.Until(t, "the lease of "+name+" has ended", func() bool {
			alive, err := judge.store.Alive(t.Context(), k.store.Self())
			return err == nil && !alive
		})
	}
	b.wire.mend()
	healthy(t, b.client)
	testkit.Until(t, "the other has a lease again", func() bool {
		alive, err := judge.store.Alive(t.Context(), b.store.Self())
		return err == nil && alive
	})
	for until := time.Now().Add(held / 4); time.Now().Before(until); time.Sleep(50 * time.Millisecond) { // it looks again and again
		if e, ok, err := reader.Poll(); ok || err != nil {
			t.Fatalf("the stream of a replica that is not back yet: %q, %v", e.Message, err)
		}
		if err := there.Deliver(t.Context(), &answer); !errors.Is(err, session.ErrUnavailable) {
			t.Fatalf("an answer to a replica that is not back yet: %v", err)
		}
	}
	a.wire.mend()
	healthy(t, a.client)
	testkit.Until(t, "the answer arrives", func() bool { return there.Deliver(t.Context(), &answer) == nil })
	if err := <-answered; err != nil {
		t.Errorf("the question: %v", err)
	}
	if err := st.Finish([]byte("the result")); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	if e, err := reader.Next(ctx); err != nil || string(e.Message) != "the result" {
		t.Errorf("the stream goes on with %q, %v", e.Message, err)
	}
}

// TestWhatWasNotStoredIsStoredLater: the answer to a request comes while NATS is away and its
// client is, too.
func TestWhatWasNotStoredIsStoredLater(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{}), startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	r := st.Read()
	first := poll(t, r)
	n.stop()
	testkit.Until(t, "the outage is noticed", func() bool { return !a.client.Health().OK })
	if err := st.Send([]byte("read without an id")); err != nil {
		t.Fatal(err)
	}
	if id := poll(t, r); id != "" {
		t.Errorf("an event that was not stored has the id %s", id)
	}
	r.Close()
	if err := st.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Use(t.Context(), "alice", s.ID(), b.origin); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("use at the other replica: %v", err)
	}
	n.start()
	healthy(t, a.client)
	healthy(t, b.client)
	there := b.use(t, s.ID())
	defer there.Release()
	if got := resume(t, there, first, 9); !slices.Equal(got, []string{"the answer"}) {
		t.Errorf("told %q", got)
	}
}

// TestALargeEventIsStoredInParts and comes as a whole, whatever was between.
func TestALargeEventIsStoredInParts(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	n.options.MaxPayload = 1 << 20 // the default of NATS
	n.stop()
	n.start()
	a, b := startKeeper(t, n, sealer, session.Options{MaxBytes: 8 << 20}), startKeeper(t, n, sealer, session.Options{MaxBytes: 8 << 20})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	want := []string{string(bytes.Repeat([]byte("0123456789abcdef"), 3<<16)), "small", string(bytes.Repeat([]byte{'x'}, 512<<10)), "the end"}
	for i, m := range want {
		send := st.Send
		if i == len(want)-1 {
			send = st.Finish
		}
		if err := send([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	there := b.use(t, s.ID())
	defer there.Release()
	if got := resume(t, there, first, 9); !slices.Equal(got, want) {
		t.Errorf("%d messages, and not those that were sent", len(got))
	}
}

// TestASessionExpiresEverywhere, once it was used nowhere for its idle time, and is told of
// once. One in use does not.
func TestASessionExpiresEverywhere(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	o := session.Options{Idle: 2 * time.Second}
	a, b := startKeeper(t, n, sealer, o), startKeeper(t, n, sealer, o)
	idle, used := a.open(t), a.open(t)
	b.use(t, idle.ID()).Release()
	idle.Release()
	used.Release()
	busy := b.use(t, used.ID())
	gone := func(k *keeper) bool {
		s, err := k.Use(t.Context(), "alice", idle.ID(), k.origin)
		if err == nil {
			s.Release()
		}
		return errors.Is(err, session.ErrUnknown)
	}
	// Each look is a use: so one look, after its time.
	time.Sleep(o.Idle + 2*o.Idle/4 + 2*time.Second)
	if !gone(a) || !gone(b) {
		t.Error("the idle session is still there")
	}
	a.use(t, used.ID()).Release()
	busy.Release()
	count := func() int {
		total := 0
		for _, k := range []*keeper{a, b} {
			k.mu.Lock()
			for _, e := range k.ended {
				if e.Why == session.Expired {
					total++
				}
			}
			k.mu.Unlock()
		}
		return total
	}
	testkit.Until(t, "its end is told", func() bool { return count() == 1 })
	for _, k := range []*keeper{a, b} {
		testkit.Until(t, "the count is that of all replicas", func() bool { return k.Stats().Sessions == 1 })
	}
}

// TestASessionThatCannotBeOpened leaves no record, which would count at all replicas.
func TestASessionThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	changes := feed.New(feed.Options{MaxSubscribers: 1})
	t.Cleanup(changes.Close)
	a, b := startKeeper(t, n, sealer, session.Options{Feed: changes}), startKeeper(t, n, sealer, session.Options{})
	a.open(t)
	if _, err := openAt(t, a.Manager); !errors.Is(err, feed.ErrFull) {
		t.Fatalf("a second session: %v", err)
	}
	b.open(t)
	for _, k := range []*keeper{a, b} {
		testkit.Until(t, "two sessions are known", func() bool { return k.Stats().Sessions == 2 })
	}
}

// TestALostBucketOfSessions is written again by the replicas that hold them.
func TestALostBucketOfSessions(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{}), startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	if err := n.admin().DeleteStream(t.Context(), "KV_outrigger_default_sessions"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the session is back at the other replica", func() bool {
		there, err := b.Use(t.Context(), "alice", s.ID(), b.origin)
		if err == nil {
			there.Release()
		}
		return err == nil
	})
	if err := s.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR); err != nil {
		t.Error(err)
	}
	there := b.use(t, s.ID())
	defer there.Release()
	testkit.Until(t, "the level arrives", func() bool { return there.LogLevel() == outriggerv1.LogLevel_LOG_LEVEL_ERROR })
}

// TestAMessageBetweenReplicas: an answer for a replica that is gone, one for nobody, and one
// for a stranger.
func TestAMessageBetweenReplicas(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	sealer := newSealer(t)
	a, b, other := open(t, state.Options{URL: n.URL(), Sealer: sealer}), open(t, state.Options{URL: n.URL(), Sealer: sealer}), open(t, state.Options{URL: n.URL()})
	for _, c := range []*state.Client{a, b, other} {
		healthy(t, c)
	}
	heard := make(chan string, 8)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	from, to, stranger := a.Channel("words"), b.Channel("words"), other.Channel("words")
	go func() {
		defer close(done)
		to.Serve(ctx, "b", func(data []byte) []byte { heard <- string(data); return append([]byte("heard "), data...) })
	}()
	testkit.Until(t, "it is served", func() bool {
		said, err := from.Ask(t.Context(), "b", []byte("one"))
		return err == nil && string(said) == "heard one"
	})
	if got := <-heard; got != "one" {
		t.Errorf("heard %q", got)
	}
	if err := from.Tell(t.Context(), []byte("two")); err != nil {
		t.Error(err)
	}
	if got := <-heard; got != "two" {
		t.Errorf("heard %q", got)
	}
	if _, err := from.Ask(t.Context(), "c", nil); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("a replica that is not there: %v", err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := stranger.Ask(brief, "b", []byte("secret")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a replica with another key: %v", err)
	}
	stop()
	<-done
	n.stop()
	testkit.Until(t, "the loss is noticed", func() bool { return !a.Health().OK })
	if _, err := from.Ask(t.Context(), "b", nil); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if len(heard) != 0 {
		t.Errorf("heard %q", <-heard)
	}
}
