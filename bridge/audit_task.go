// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/audit"
)

// taskLine is the line about the end of a call that runs on as a task. A call that ends
// before it is one leaves the line of its request alone. A nil taskLine writes nothing.
type taskLine struct {
	bridge *Bridge
	event  audit.Event
	start  time.Time

	mu       sync.Mutex
	runsOn   bool
	response *Response
}

// taskLine begins the line of a call that may run on.
func (b *Bridge) taskLine(c *toolCall) *taskLine {
	inv := c.req.invocation()
	if inv == nil {
		return nil
	}
	return &taskLine{bridge: b, event: inv.event, start: time.Now()}
}

// isTask notes that the call has become a task, which may have ended already.
func (l *taskLine) isTask() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runsOn = true
	if l.response != nil {
		l.write(l.response)
	}
}

// ended notes how the call has ended.
func (l *taskLine) ended(resp *Response) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.runsOn {
		l.response = resp
		return
	}
	l.write(resp)
}

func (l *taskLine) write(resp *Response) {
	e := &l.event
	e.Duration = time.Since(l.start)
	l.bridge.addOutcome(e, resp, outcomeCode(resp))
	l.bridge.opts.Audit.EndTask(e)
}
