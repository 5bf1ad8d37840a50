// SPDX-License-Identifier: Apache-2.0

package caller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

func stdioEdges() []Edge {
	edge := func(name string, d Dialect, ids IDs) Edge {
		return Edge{Name: name, IDs: ids, Process: true, Dial: func(tb testing.TB, t Target) Agent {
			tb.Helper()
			return DialStdio(tb, t, d)
		}}
	}
	return []Edge{
		edge("stdio-modern", Modern, AnyIDs),
		edge("stdio-legacy", Legacy, AnyIDs),
		edge("stdio-canonical", Canonical, StringIDs),
	}
}

// StdioAgent speaks to its own process.
type StdioAgent struct {
	pipe    *sidecar.Stdio
	dialect Dialect
	reading sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan Reply
	strays  []string
}

// DialStdio starts a process and opens the conversation.
func DialStdio(tb testing.TB, t Target, d Dialect) *StdioAgent {
	tb.Helper()
	a := &StdioAgent{pipe: sidecar.Pipe(tb, t.Binary, t.Args...), dialect: d, waiting: map[string]chan Reply{}}
	if d == Legacy {
		a.pipe.MustSend(tb, Initialize)
		if line := a.pipe.Next(tb); !json.Valid([]byte(line)) {
			tb.Fatalf("initialize: %s", line)
		}
		a.pipe.MustSend(tb, Initialized)
	}
	a.reading.Go(a.read)
	tb.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, line := range a.strays {
			tb.Errorf("not asked for: %s", line)
		}
	})
	return a
}

// The opening of a legacy conversation.
const (
	Initialize  = `{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"conformance","version":"1"}}}`
	Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// Strays implements [Strayer].
func (a *StdioAgent) Strays() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.strays)
}

// Process returns the process behind the agent.
func (a *StdioAgent) Process() *sidecar.Stdio { return a.pipe }

// read hands every answer to the request with its id.
func (a *StdioAgent) read() {
	for line := range a.pipe.Lines() {
		var reply Reply
		err := json.Unmarshal(line, &reply)
		a.mu.Lock()
		waiter, ok := a.waiting[string(reply.ID)]
		delete(a.waiting, string(reply.ID))
		if err != nil || !ok {
			a.strays = append(a.strays, string(line))
			ok = false
		}
		a.mu.Unlock()
		if ok {
			waiter <- reply
		}
	}
}

// CallAll implements [Agent].
func (a *StdioAgent) CallAll(ctx context.Context, calls []Call) []Answer {
	return each(calls, func(c Call) Answer {
		waiter := make(chan Reply, 1)
		a.mu.Lock()
		_, taken := a.waiting[c.ID]
		if !taken {
			a.waiting[c.ID] = waiter
		}
		a.mu.Unlock()
		if taken {
			return failed(fmt.Errorf("id %s is in use", c.ID))
		}
		if err := a.pipe.Send(a.dialect.Request(c)); err != nil {
			return failed(err)
		}
		select {
		case reply := <-waiter:
			return a.dialect.answer(reply, 0)
		case <-a.pipe.Done():
			a.reading.Wait() // its last words are still on their way
			select {
			case reply := <-waiter:
				return a.dialect.answer(reply, 0)
			default:
				return failed(fmt.Errorf("the process ended: %s", a.pipe.Text()))
			}
		case <-ctx.Done():
			return failed(ctx.Err())
		}
	})
}

// Close ends the input and waits until the process has said everything.
func (a *StdioAgent) Close() {
	a.pipe.CloseInput()
	a.reading.Wait()
}
