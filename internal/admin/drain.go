// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Drainer drains the process and ends it.
type Drainer interface {
	// Drain starts the drain and returns at once. It may be called again during the
	// drain. who is the operator that asks.
	Drain(who string)
	// Drained returns nil once no work is left, or an error when ctx ends.
	Drained(ctx context.Context) error
	// InFlight returns the number of requests that have no response yet.
	InFlight() int
}

// maxDrainWait bounds how long one request may wait for the end of a drain. No
// grace period is longer.
const maxDrainWait = time.Hour

// drain begins a drain: 202 while it goes on, 200 once it is over. With ?wait=10s
// the answer comes when it is over, or after that time.
func (a *Admin) drain(w http.ResponseWriter, r *http.Request) {
	wait, err := drainWait(r)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	d := a.options.Drain
	d.Drain(a.Operator(r.Context(), r.RemoteAddr))
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if d.Drained(ctx) == nil {
		a.told.Add(1)
		say(w, http.StatusOK, "drained")
		return
	}
	say(w, http.StatusAccepted, fmt.Sprintf("draining; %d requests in flight", d.InFlight()))
}

// drainWait is how long the caller wants to wait, zero where it does not.
func drainWait(r *http.Request) (time.Duration, error) {
	query := r.URL.Query()
	if !query.Has("wait") {
		return 0, nil
	}
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil || wait < 0 || wait > maxDrainWait {
		return 0, fmt.Errorf("wait must be a duration such as 10s, at most %v", maxDrainWait)
	}
	return wait, nil
}

// Awaited reports whether a client waits, or has waited, for the end of the drain.
func (a *Admin) Awaited() bool { return a.waiting.Load() > 0 || a.told.Load() > 0 }
