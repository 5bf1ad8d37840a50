// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// stubSource is a source under a fake clock, where no real peer can be.
type stubSource struct {
	mu    sync.Mutex
	load  func() (*source.Loaded, error)
	times []time.Time
}

func (s *stubSource) Name() string { return "stub" }

func (s *stubSource) Load(context.Context) (*source.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
	return s.load()
}

func (s *stubSource) set(load func() (*source.Loaded, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = load
}

// works brings one service with the given methods.
func works(methods ...string) func() (*source.Loaded, error) {
	return func() (*source.Loaded, error) {
		return &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", methods...)}}, nil
	}
}

// fails is a server that is not there.
func fails(text string) func() (*source.Loaded, error) {
	return func() (*source.Loaded, error) {
		return nil, &source.Error{Source: "stub", Step: "list services", Cause: errors.New(text)}
	}
}

// unhurried takes no random part of a pause away, so that pauses are known.
func unhurried() float64 { return 1 }

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &stubSource{load: fails("connection refused")}
		live := NewLive([]source.Source{from}, LiveOptions{Random: unhurried})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- live.Run(ctx) }()
		time.Sleep(40 * time.Second)
		from.set(works("S/M"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if live.Current() == nil {
			t.Fatalf("no catalog ten seconds after the source recovered: %+v", live.Status())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		var pauses []time.Duration
		for i := 1; i < len(from.times); i++ {
			pauses = append(pauses, from.times[i].Sub(from.times[i-1]))
		}
		want := []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
			3200 * time.Millisecond, 6400 * time.Millisecond, 10 * time.Second, 10 * time.Second, 10 * time.Second,
		}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
	})
}

func TestBackoffIsJittered(t *testing.T) {
	t.Parallel()
	least := backoff{min: time.Second, max: time.Minute, random: func() float64 { return 0 }}
	most := backoff{min: time.Second, max: time.Minute, random: unhurried}
	for range 100 {
		a, b := least.next(), most.next()
		if a*2 != b || b > time.Minute || a < time.Second/2 {
			t.Fatalf("pauses from %v to %v, want the upper half of at most a minute", a, b)
		}
	}
	if least.reset(); least.next() != time.Second/2 {
		t.Error("reset does not start over")
	}
}

func TestStatusSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &stubSource{load: fails("connection refused")}
		live := NewLive([]source.Source{from}, LiveOptions{Random: unhurried, BackoffMin: 2 * time.Second, RefreshEvery: time.Minute})
		if got := live.Status(); got.Ready || got.Why != "loading has not started" {
			t.Errorf("before Run: %+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- live.Run(ctx) }()
		synctest.Wait()
		want := "stub: list services: connection refused; next attempt in 2s"
		if got := live.Status(); got.Ready || got.Why != want || got.Loads != 1 || got.Failures != 1 {
			t.Errorf("after a failure: %+v, want %q", got, want)
		}
		if got := live.Status().Sources; len(got) != 1 || got[0].Name != "stub" || got[0].Err == nil {
			t.Errorf("sources %+v", got)
		}
		from.set(works("S/M", "S/N"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		got := live.Status()
		if !got.Ready || got.Why != "" || got.Err != nil || got.Failures != 0 || got.Loads != 2 {
			t.Errorf("after a success: %+v", got)
		}
		if got.Sources[0].Files != 1 || got.Sources[0].Services != 1 || got.Loaded.IsZero() {
			t.Errorf("after a success: %+v", got)
		}
		from.set(fails("connection reset"))
		time.Sleep(time.Minute)
		synctest.Wait()
		want = "last refresh failed; keeping the previous catalog: stub: list services: connection reset; next attempt in "
		if got := live.Status(); !got.Ready || !strings.HasPrefix(got.Why, want) || live.Current() == nil {
			t.Errorf("after a failed refresh: %+v, want %q", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestTheLastGoodCatalogStays(t *testing.T) {
	t.Parallel()
	from := &stubSource{load: works("S/M")}
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := live.Current()
	for name, load := range map[string]func() (*source.Loaded, error){
		"failing": fails("gone"),
		"empty":   works(),
		"clash":   works("S/GetIt", "S/get_it"),
	} {
		from.set(load)
		if err := live.Refresh(t.Context()); err == nil {
			t.Errorf("%s: Refresh succeeded", name)
		}
		if live.Current() != good || !live.Status().Ready || live.Status().Why == "" {
			t.Errorf("%s: the good catalog is gone or the status is silent: %+v", name, live.Status())
		}
	}
	from.set(works("S/M", "S/N"))
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live.Current() == good || live.Status().Why != "" {
		t.Error("a good load after bad ones changes nothing")
	}
}

func TestOneFailedSourceFailsTheLoad(t *testing.T) {
	t.Parallel()
	a, b := &stubSource{load: works("S/M")}, &stubSource{load: fails("gone")}
	live := NewLive([]source.Source{a, b}, LiveOptions{})
	if err := live.Refresh(t.Context()); err == nil || live.Current() != nil {
		t.Errorf("half a catalog came out: error %v", err)
	}
	if got := live.Status().Sources; len(got) != 2 || got[0].Err != nil || got[1].Err == nil {
		t.Errorf("sources %+v, want the second alone to have failed", got)
	}
}

func TestRunStopsWhereWaitingCannotHelp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		sources []source.Source
		check   func(error) bool
	}{
		{"collision", []source.Source{&stubSource{load: works("S/GetIt", "S/get_it")}}, func(err error) bool {
			var e *BuildError
			return errors.As(err, &e)
		}},
		{"no such file", []source.Source{source.NewDescriptorFile("testdata/none.binpb", source.Limits{})}, func(err error) bool {
			var e *source.Error
			return errors.As(err, &e) && e.Permanent
		}},
		{"an empty set", []source.Source{source.NewDescriptors("built in", &descriptorpb.FileDescriptorSet{})}, func(err error) bool {
			return errors.Is(err, ErrEmpty)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			live := NewLive(tc.sources, LiveOptions{})
			waited := make(chan error, 1)
			go func() { _, err := live.Wait(context.Background()); waited <- err }()
			if err := live.Run(t.Context()); !tc.check(err) {
				t.Errorf("Run returned %v", err)
			}
			var notReady *NotReadyError
			if err := <-waited; !errors.As(err, &notReady) || !tc.check(err) || strings.Contains(err.Error(), "next try") {
				t.Errorf("Wait returned %v", err)
			}
		})
	}
}

func TestWaitIsBoundedByItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &stubSource{load: fails("connection refused")}
		live := NewLive([]source.Source{from}, LiveOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- live.Run(ctx) }()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := live.Wait(short)
		var notReady *NotReadyError
		if !errors.As(err, &notReady) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("Wait returned %v", err)
		}
		got := make(chan *Catalog, 50)
		for range 50 {
			go func() { c, _ := live.Wait(t.Context()); got <- c }()
		}
		from.set(works("S/M"))
		for range 50 {
			if c := <-got; c == nil || len(c.Tools()) != 1 {
				t.Error("a waiter got no catalog")
			}
		}
		cancel()
		<-done
	})
}

func TestOnChangeTellsEachVisibleChangeOnce(t *testing.T) {
	t.Parallel()
	from := &stubSource{load: works("S/M")}
	live := NewLive([]source.Source{from}, LiveOptions{})
	var seen []string
	stop := live.OnChange(func(old, now *Catalog) {
		before := 0
		if old != nil {
			before = len(old.Tools())
		}
		if live.Current() != now {
			t.Error("the new catalog is announced before it is in use")
		}
		seen = append(seen, fmt.Sprintf("%d to %d", before, len(now.Tools())))
	})
	refresh := func(load func() (*source.Loaded, error)) {
		from.set(load)
		_ = live.Refresh(t.Context())
	}
	refresh(works("S/M"))
	refresh(works("S/M"))
	refresh(fails("gone"))
	refresh(works("S/M", "S/N"))
	stop()
	refresh(works("S/N"))
	if diff := cmp.Diff([]string{"0 to 1", "1 to 2"}, seen); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRefreshIsOneAtATimeAndHeedsItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		from := &stubSource{load: func() (*source.Loaded, error) { <-release; return works("S/M")() }}
		live := NewLive([]source.Source{from}, LiveOptions{})
		first := make(chan error, 1)
		go func() { first <- live.Refresh(t.Context()) }()
		synctest.Wait()
		if why := live.Status().Why; why != "the first load is in progress" {
			t.Errorf("status %q", why)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := live.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Refresh returned %v", err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Errorf("the first Refresh returned %v", err)
		}
		if n := len(from.times); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

// TestStartupMayPrecedeTheBackend is the whole way with a real server that comes late, changes, and goes.
func TestStartupMayPrecedeTheBackend(t *testing.T) {
	t.Parallel()
	peer := newScripted("a.S")
	peer.stop["list"] = connect.NewError(connect.CodeUnavailable, errors.New("starting"))
	url := peer.serve(t, reflectionV1)
	set := func(change func()) {
		peer.mu.Lock()
		defer peer.mu.Unlock()
		change()
	}
	live := NewLive([]source.Source{source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{})},
		LiveOptions{BackoffMin: 5 * time.Millisecond, BackoffMax: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- live.Run(ctx) }()
	testkit.Until(t, "two loads fail", func() bool { return live.Status().Failures >= 2 })
	over, stop := context.WithCancel(t.Context())
	stop()
	if c, err := live.Wait(over); err == nil {
		t.Fatalf("a catalog of %v before the server is up", namesOf(c))
	}
	if why := live.Status().Why; !strings.Contains(why, "reflection at "+url+": list services: unavailable: starting") {
		t.Errorf("not ready because %q", why)
	}
	set(func() {
		delete(peer.stop, "list")
		peer.symbols["a.S"] = []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "S/M")}
	})
	c, err := live.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"s.m"}, namesOf(c)); diff != "" {
		t.Errorf("first catalog:\n%s", diff)
	}
	set(func() {
		peer.symbols["a.S"] = []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "S/M", "S/New")}
	})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"s.m", "s.new"}, namesOf(live.Current())); diff != "" {
		t.Errorf("after the change:\n%s", diff)
	}
	set(func() { delete(peer.symbols, "a.S") })
	if err := live.Refresh(t.Context()); err == nil {
		t.Error("a lying server refreshes the catalog")
	}
	if len(live.Current().Tools()) != 2 {
		t.Error("the last good catalog did not stay")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// TestBeforeUse: the function hears of each catalog before anyone can get it.
func TestBeforeUse(t *testing.T) {
	t.Parallel()
	from := &stubSource{load: works("S/M")}
	live := NewLive([]source.Source{from}, LiveOptions{})
	var heard []int
	live.BeforeUse(func(fresh *Catalog) {
		if now := live.Current(); now == fresh {
			t.Error("it is in use already")
		}
		heard = append(heard, len(fresh.Tools()))
	})
	for _, methods := range [][]string{{"S/M"}, {"S/M", "S/N"}} {
		from.set(works(methods...))
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(heard) != 2 || heard[0] != 1 || heard[1] != 2 {
		t.Errorf("heard of %v", heard)
	}
}
