// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAnswersInMemoryKeepTheContract that those of replicas keep.
func TestAnswersInMemoryKeepTheContract(t *testing.T) {
	t.Parallel()
	testkit.AnswersContract(t, func(*testing.T) testkit.KeptAnswers { return bridge.NewAnswerMemory(100, 1<<20) })
}

// fault is what goes wrong at a step: a question to the store, or a call of the backend.
type fault uint8

const (
	_ fault = iota // none
	// killBefore and killAfter end the replica that takes the step, before it has its effect or behind it.
	killBefore
	killAfter
	// awayBefore and awayAfter lose the question, or the answer to it.
	awayBefore
	awayAfter
	faults
)

// String names a fault.
func (f fault) String() string {
	return [faults]string{"none", "killed before", "killed after", "away before", "away after"}[f]
}

// answering is a simulation of replicas that share a store and a backend.
type answering struct {
	store bridge.KeptAnswers
	// at is what goes wrong at a step, by its number.
	at map[int]fault
	// over is closed at the end, for replicas that were killed: they do nothing any more.
	over chan struct{}

	mu      sync.Mutex
	steps   int
	effects []time.Time
	texts   map[string]bool
}

// process is one replica: what it knows is lost when it is killed.
type process struct {
	of   *answering
	dead bool
}

var errAway = errors.New("the store is away")

// errKilled is what a replica that was killed gets, which no caller hears.
var errKilled = errors.New("killed")

// step takes a step of a replica, with what goes wrong at it. act has the effect.
func (p *process) step(act func()) error {
	w := p.of
	w.mu.Lock()
	w.steps++
	f := w.at[w.steps]
	if f == killBefore {
		p.dead = true
	}
	isDead := p.dead
	if !isDead && f != awayBefore {
		act()
	}
	if f == killAfter {
		p.dead, isDead = true, true
	}
	w.mu.Unlock()
	switch {
	case isDead:
		<-w.over
		return errKilled
	case f == awayBefore, f == awayAfter:
		return errAway
	}
	return nil
}

func (p *process) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	if failed := p.step(func() { value, revision, err = p.of.store.Get(ctx, key) }); failed != nil {
		return nil, 0, failed
	}
	return value, revision, err
}

func (p *process) Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (revision uint64, err error) {
	if failed := p.step(func() { revision, err = p.of.store.Create(ctx, key, value, lifetime) }); failed != nil {
		return 0, failed
	}
	return revision, err
}

func (p *process) Update(ctx context.Context, key string, value []byte, before uint64, lifetime time.Duration) (revision uint64, err error) {
	if failed := p.step(func() { revision, err = p.of.store.Update(ctx, key, value, before, lifetime) }); failed != nil {
		return 0, failed
	}
	return revision, err
}

func (p *process) Delete(ctx context.Context, key string, revision uint64) (err error) {
	if failed := p.step(func() { err = p.of.store.Delete(ctx, key, revision) }); failed != nil {
		return failed
	}
	return err
}

// backend is the backend as a replica reaches it: with an effect that is not to be had twice, and an answer that says which it was.
func (p *process) backend(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	w := p.of
	var n int
	err := p.step(func() {
		w.effects = append(w.effects, time.Now())
		n = len(w.effects)
	})
	switch {
	case errors.Is(err, errAway) && n == 0:
		return nil, errmap.Wrap(errmap.Unavailable, err)
	case err != nil:
		return nil, errmap.Wrap(errmap.TransportError, err)
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	wire, failed := proto.Marshal(&demov1.Order{Id: 1, Customer: fmt.Sprint("answer ", n)})
	if failed != nil {
		return nil, errmap.Wrap(errmap.InternalError, failed)
	}
	return &bridge.Answer{Body: wire}, nil
}

const (
	answerTTL = time.Hour
	callTime  = 10 * time.Second
)

// call makes the call at a new replica, and waits for its answer as long as the replica lives.
func (w *answering) call(t *testing.T) {
	t.Helper()
	p := &process{of: w}
	b := bridge.New(mcptest.Memory(t), mcptest.Upstream(p.backend), correlate.New(correlate.Options{}), bridge.Options{
		Answers: p, AnswerTTL: answerTTL, MaxAnswerBytes: 1 << 20, Timeout: callTime,
	})
	req := toolCall(b, "fleet.place_order", `{"customer":"Ann","destination":{"stopId":"1"},"parcels":[{"contents":"a coconut","weightKg":1}]}`)
	req.Caller, req.Header = "ann", http.Header{backend.IdempotencyHeader: {"k"}}
	got := b.Handle(context.WithoutCancel(t.Context()), req)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.dead:
	case got.Err == nil && len(w.effects) == 0:
		t.Errorf("an answer without an effect: %s", got.JSON())
	case got.Err == nil:
		w.texts[string(got.JSON())] = true
	case got.Err.Code != errmap.Unavailable && got.Err.Code != errmap.Timeout && got.Err.Code != errmap.TransportError:
		t.Errorf("%v", got.Err)
	}
}

// simulated has two callers repeat a call at replicas that share a store, the second one after a while, and each of them again later. It
// returns how many steps that took.
func simulated(t *testing.T, name string, at map[int]fault, after time.Duration) (steps int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &answering{store: bridge.NewAnswerMemory(100, 1<<20), at: at, over: make(chan struct{}), texts: map[string]bool{}}
		var calls sync.WaitGroup
		calls.Go(func() { w.call(t) })
		time.Sleep(after)
		for _, pause := range []time.Duration{0, 3 * time.Second, time.Minute} {
			time.Sleep(pause)
			calls.Go(func() { w.call(t) })
		}
		time.Sleep(answerTTL / 2)
		w.mu.Lock()
		steps = w.steps
		if len(w.effects) > 1 || len(w.texts) > 1 {
			t.Errorf("%s, the second after %v: %d effects, answers %v", name, after, len(w.effects), w.texts)
		}
		w.at, w.texts = nil, map[string]bool{}
		before := len(w.effects)
		w.mu.Unlock()
		time.Sleep(answerTTL) // the key is forgotten
		w.call(t)
		w.mu.Lock()
		if len(w.effects) != before+1 || len(w.texts) != 1 {
			t.Errorf("%s: a call whose key is forgotten: %d effects, answers %v", name, len(w.effects)-before, w.texts)
		}
		w.mu.Unlock()
		close(w.over)
		calls.Wait()
	})
	return steps
}

// TestOneEffectForEachKey: whatever step a replica is killed at, and whatever answer of the store is lost, a call that is repeated with
// its key has one effect at most, and all who get an answer get the first one.
func TestOneEffectForEachKey(t *testing.T) {
	t.Parallel()
	const mostSteps = 40
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, time.Minute} {
		steps := simulated(t, "nothing", nil, after)
		for f := killBefore; f < faults; f++ {
			for step := 1; step <= min(steps, mostSteps); step++ {
				simulated(t, fmt.Sprintf("%v step %d", f, step), map[int]fault{step: f}, after)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		at := map[int]fault{}
		for range 1 + random.IntN(5) {
			at[1+random.IntN(16)] = 1 + fault(random.IntN(int(faults)-1))
		}
		simulated(t, fmt.Sprintf("%d: %v", i, at), at, time.Duration(random.Int64N(int64(5*time.Second))))
	}
}
