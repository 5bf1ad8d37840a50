// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// taskLine is the line about the end of a call that runs on as a task, and its document. A
// call that ends before it is one leaves those of its request alone. A nil taskLine writes
// nothing.
type taskLine struct {
	bridge    *Bridge
	event     audit.Event
	isAudited bool
	document  *callDocument
	start     time.Time
	// call is the span of the call.
	call *tracing.Span

	mu       sync.Mutex
	runsOn   bool
	response *Response
	span     *tracing.Span // of the task; nil before it is one
}

// taskLine begins the line of a call that may run on.
func (b *Bridge) taskLine(c *toolCall) *taskLine {
	if c.req.meter == nil {
		return nil
	}
	line := &taskLine{bridge: b, document: c.req.meter.document, start: time.Now(), call: c.req.Span}
	if inv := c.req.invocation(); inv != nil {
		line.event, line.isAudited = inv.event, true
	}
	return line
}

// resumedLine is the line of a task that another replica began.
func (b *Bridge) resumedLine(call *statev1.TaskCall, tool *catalog.Tool, origin []byte) *taskLine {
	line := &taskLine{bridge: b, start: time.Now(), runsOn: true}
	if t := b.opts.Tracer; t.IsOn() {
		line.span = t.StartIn(context.Background(), tracing.TaskSpan)
		line.span.Link(tracing.ReadContext(origin))
	}
	if !b.opts.Audit.IsOn() {
		return line
	}
	who := call.GetWho()
	inv := &invocation{event: audit.Event{
		ID: b.opts.Audit.NewID(), Route: call.GetRoute(), Edge: stats.EdgeOf(call.GetTransport(), call.GetRoute(), false).String(),
		Operation: OpCall.String(), Trust: who.GetTrust(), Decision: audit.Allowed, Rule: ruleTakeover, BytesIn: len(call.GetWire()),
		Caller: audit.Caller{
			Name: who.GetName(), Subject: who.GetSubject(), Issuer: who.GetIssuer(), ClientID: who.GetClientId(), Address: who.GetAddress(),
			Source: who.GetSource(),
		},
	}}
	inv.found(tool)
	line.event, line.isAudited = inv.event, true
	return line
}

// who is the caller as a task keeps it for the trail of another replica.
func (l *taskLine) who() *statev1.TaskCaller {
	if l == nil || !l.isAudited {
		return nil
	}
	c := &l.event.Caller
	return &statev1.TaskCaller{
		Name: c.Name, Subject: c.Subject, Issuer: c.Issuer, ClientId: c.ClientID, Address: c.Address, Source: c.Source, Trust: l.event.Trust,
	}
}

// isTask notes that the call has become a task, which may have ended already.
func (l *taskLine) isTask() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runsOn = true
	l.begin()
	l.document.isTask()
	if l.response != nil {
		l.write(l.response)
	}
}

// began begins the span of a task and returns it.
func (l *taskLine) began() *tracing.Span {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin()
}

// begin is began under the lock.
func (l *taskLine) begin() *tracing.Span {
	if l.span == nil {
		l.span = l.call.RunOn(tracing.TaskSpan)
	}
	return l.span
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
	code := outcomeCode(resp)
	EndSpan(l.span, resp, errmap.ModernMCP, errmap.About{ToolCall: true})
	l.bridge.taskEnded(l.document, resp, code)
	if !l.isAudited {
		return
	}
	e := &l.event
	e.Duration = time.Since(l.start)
	l.bridge.addOutcome(e, resp, code)
	l.bridge.opts.Audit.EndTask(e)
}
