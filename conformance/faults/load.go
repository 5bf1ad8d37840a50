// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// What the load is made of.
const (
	// maxWork is the longest that the backend is asked to take: calls are in flight
	// at any moment.
	maxWork = 600 * time.Millisecond
	// maxPayload is the largest payload in bytes: more than one HTTP/2 frame and
	// one buffer.
	maxPayload = 24 << 10
	// maxPause is the longest pause between two calls of a caller, so that those
	// who are refused at once do not spin.
	maxPause = 60 * time.Millisecond
	// maxBatch is the most calls in one batch.
	maxBatch = 3
	// leavers: one call of so many loses its caller.
	leavers = 12
)

// line is an edge with its agent, and whether callers on it can leave.
type line struct {
	edge  caller.Edge
	agent caller.Agent
}

// mayLeave reports whether a caller can give up one call without giving up
// others.
func (l line) mayLeave() bool {
	return !l.edge.Process && !strings.HasPrefix(l.edge.Name, "exchange") && !l.batch()
}

func (l line) batch() bool { return strings.HasSuffix(l.edge.Name, "-batch") }

// load is callers at work.
type load struct {
	book *Book
	// limit is how long a caller waits for an answer before it says that there is
	// none.
	limit   time.Duration
	serial  *atomic.Uint64
	stopped chan struct{}
	running sync.WaitGroup

	mu sync.Mutex
	// flying are the calls that have no answer yet, by their first nonce, and when
	// they were sent.
	flying map[string]time.Time
}

// flyingSince reports whether a call is in flight that was sent before at.
func (l *load) flyingSince(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sent := range l.flying {
		if sent.Before(at) {
			return true
		}
	}
	return false
}

// fly notes that calls are in flight, land that they are no longer.
func (l *load) fly(nonce string, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flying == nil {
		l.flying = map[string]time.Time{}
	}
	l.flying[nonce] = sent
}

func (l *load) land(nonce string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flying, nonce)
}

// startLoad sets as many callers to work on each line. Which calls they make follows
// from the seed, when they make them does not.
func startLoad(ctx context.Context, book *Book, serial *atomic.Uint64, lines []line, each int, seed uint64, limit time.Duration) *load {
	l := &load{book: book, limit: limit, serial: serial, stopped: make(chan struct{})}
	for i, to := range lines {
		for w := range each {
			random := rand.New(rand.NewPCG(seed, uint64(i*each+w))) //nolint:gosec // a load, no secret
			l.running.Go(func() { l.work(ctx, to, random) })
		}
	}
	return l
}

// stop lets every caller end the call that it is in.
func (l *load) stop() {
	close(l.stopped)
	l.running.Wait()
}

func (l *load) work(ctx context.Context, to line, random *rand.Rand) {
	for {
		select {
		case <-l.stopped:
			return
		case <-time.After(time.Duration(random.Int64N(int64(maxPause)))):
		}
		n := 1
		if to.batch() {
			n += random.IntN(maxBatch)
		}
		leave := time.Duration(0)
		if to.mayLeave() && random.IntN(leavers) == 0 {
			leave = time.Millisecond + time.Duration(random.Int64N(int64(maxWork)))
		}
		calls, entries := l.draw(to, random, n)
		l.make(ctx, to, calls, entries, leave)
	}
}

// draw thinks up calls.
func (l *load) draw(to line, random *rand.Rand, n int) ([]caller.Call, []Entry) {
	calls, entries := make([]caller.Call, n), make([]Entry, n)
	for i := range n {
		work := time.Duration(random.Int64N(int64(maxWork))).Truncate(time.Millisecond)
		if random.IntN(2) == 0 {
			payload := make([]byte, random.IntN(maxPayload))
			for j := range payload {
				payload[j] = byte(random.Uint32())
			}
			calls[i], entries[i] = l.echo(to, work, payload)
		} else {
			calls[i], entries[i] = l.sleep(to, work)
		}
	}
	return calls, entries
}

// echo is an idempotent call.
func (l *load) echo(to line, work time.Duration, payload []byte) (caller.Call, Entry) {
	e := l.entry(to, MethodEcho, work)
	e.Idempotent, e.Payload = true, base64.StdEncoding.EncodeToString(payload)
	return caller.Call{
		ID: `"` + e.Nonce + `"`, Tool: "lab.echo", Procedure: procedure(MethodEcho),
		Args: fmt.Sprintf(`{"nonce":%q,"signed":"%d","payload":%q}`, e.Nonce, work.Milliseconds(), e.Payload),
	}, e
}

// sleep is a call that may not be repeated.
func (l *load) sleep(to line, work time.Duration) (caller.Call, Entry) {
	e := l.entry(to, MethodSleep, work)
	return caller.Call{
		ID: `"` + e.Nonce + `"`, Tool: "lab.sleep", Procedure: procedure(MethodSleep),
		Args: fmt.Sprintf(`{"nonce":%q,"duration":"%.3fs"}`, e.Nonce, work.Seconds()),
	}, e
}

func (l *load) entry(to line, method string, work time.Duration) Entry {
	return Entry{Nonce: fmt.Sprintf("n%d", l.serial.Add(1)), Edge: to.edge.Name, Method: method, Asked: work}
}

func procedure(method string) string { return "/outrigger.demo.v1.Lab/" + method }

// make makes calls at once and writes down what came of them. Callers leave after
// leave, 0 for those who stay.
func (l *load) make(ctx context.Context, to line, calls []caller.Call, entries []Entry, leave time.Duration) []Entry {
	limit := l.limit
	if leave > 0 {
		limit = leave
	}
	sent := time.Now() // before the caller's time begins, so that it is not over before Entry.Left says so
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.fly(entries[0].Nonce, sent)
	answers := to.agent.CallAll(ctx, calls)
	l.land(entries[0].Nonce)
	done := time.Now()
	for i := range entries {
		e := &entries[i]
		e.Leaves, e.Sent, e.Done, e.Answers = leave, sent, done, answers[i:i+1]
	}
	l.book.Add(entries...)
	return entries
}
