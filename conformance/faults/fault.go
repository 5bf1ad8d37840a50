// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"time"
)

// Fault is one thing that goes wrong while callers are at work.
type Fault struct {
	Name string
	// Break begins it, Mend ends it.
	Break, Mend func(*Rig)
	// Hold is the time between the two.
	Hold time.Duration
	// Heals says that calls must succeed again before Mend.
	Heals bool
	// Codes are the canonical codes with which calls may end from Break until they
	// succeed again. None: every call succeeds.
	Codes []string
	// Shows is the code with which at least one call must end, so that the fault
	// is known to have struck; "" where no call fails.
	Shows string
	// Slows is how much longer than asked at least one call must take.
	Slows time.Duration
	// Short puts it into the short form.
	Short bool
}

// Sizes and times of the faults. All are for a machine where a call takes
// milliseconds, and a payload of the load is up to maxPayload bytes.
const (
	latency   = 300 * time.Millisecond
	narrow    = 96 // KiB a second
	sliceSize = 24 // bytes: less than one HTTP/2 frame of any call
	cutAfter  = 6 << 10
	lateClose = 800 * time.Millisecond
	awayFor   = 1200 * time.Millisecond
	brief     = 150 * time.Millisecond
)

// Faults lists all of them, for a sidecar that gives calls so much time.
func Faults(timeout time.Duration) []Fault {
	lost := []string{Unavailable, TransportError}
	slow := []string{Unavailable, TransportError, Timeout}
	tooLong := timeout + 500*time.Millisecond
	return []Fault{
		{
			Name: "latency", Short: true, Hold: time.Second, Slows: latency,
			Break: func(r *Rig) {
				r.Proxy.Slow(Requests, latency, latency/3)
				r.Proxy.Slow(Answers, latency, latency/3)
			},
			Mend: healed,
		},
		{
			Name: "low bandwidth", Hold: 2 * time.Second, Slows: 50 * time.Millisecond,
			Break: func(r *Rig) { r.Proxy.Narrow(Requests, narrow); r.Proxy.Narrow(Answers, narrow) },
			Mend:  healed,
		},
		{
			Name: "small chunks", Hold: 2 * time.Second,
			Break: func(r *Rig) { r.Proxy.Slice(Requests, sliceSize); r.Proxy.Slice(Answers, sliceSize) },
			Mend:  healed,
		},
		{
			Name: "reset mid-call", Short: true, Codes: lost, Shows: TransportError,
			Break: func(r *Rig) { r.Proxy.Reset() },
			Mend:  func(*Rig) {},
		},
		{
			Name: "connections refused", Hold: awayFor, Codes: lost, Shows: Unavailable,
			Break: func(r *Rig) { r.Proxy.Disconnect() },
			Mend:  func(r *Rig) { r.Proxy.Connect() },
		},
		{
			Name: "connection cut during a request", Hold: awayFor, Codes: lost, Shows: TransportError,
			Break: func(r *Rig) { r.Proxy.Cut(Requests, cutAfter) },
			Mend:  healed,
		},
		{
			Name: "connection cut during a response", Hold: awayFor, Codes: lost, Shows: TransportError,
			Break: func(r *Rig) { r.Proxy.Cut(Answers, cutAfter) },
			Mend:  healed,
		},
		{
			Name: "half-open: responses lost", Short: true, Hold: tooLong, Codes: slow, Shows: Timeout,
			Break: func(r *Rig) { r.Proxy.Swallow(Answers) },
			Mend:  healed,
		},
		{
			Name: "half-open: requests lost", Hold: tooLong, Codes: slow, Shows: Timeout,
			Break: func(r *Rig) { r.Proxy.Swallow(Requests) },
			Mend:  healed,
		},
		{
			Name: "blackhole", Hold: tooLong, Codes: slow, Shows: Timeout,
			Break: func(r *Rig) { r.Proxy.Swallow(Requests); r.Proxy.Swallow(Answers) },
			Mend:  healed,
		},
		{
			Name: "connections silently dead", Heals: true, Codes: slow, Shows: Timeout,
			Break: func(r *Rig) { r.Proxy.Silence(Requests); r.Proxy.Silence(Answers) },
			Mend:  healed,
		},
		{
			Name: "kill -9 and restart mid-call", Short: true, Codes: lost, Shows: TransportError,
			Break: func(r *Rig) { r.Backend.Kill() },
			Mend:  func(r *Rig) { r.Backend.Start() },
		},
		{
			Name: "kill -9, down for a while", Hold: awayFor, Codes: lost, Shows: Unavailable,
			Break: func(r *Rig) { r.Backend.Kill() },
			Mend:  func(r *Rig) { r.Backend.Start() },
		},
		{
			Name: "kill -9, slow close", Hold: awayFor, Codes: slow, Shows: TransportError,
			Break: func(r *Rig) { r.Proxy.CloseLate(Answers, lateClose); r.Backend.Kill() },
			Mend:  func(r *Rig) { r.Backend.Start(); r.Proxy.Heal() },
		},
		{
			Name: "SIGTERM and restart", Codes: lost,
			Break: func(r *Rig) { r.Backend.End() },
			Mend:  func(r *Rig) { r.Backend.Start() },
		},
		{
			Name: "SIGSTOP, SIGCONT in time", Short: true, Hold: 700 * time.Millisecond, Slows: brief,
			Break: func(r *Rig) { r.Backend.Freeze() },
			Mend:  func(r *Rig) { r.Backend.Thaw() },
		},
		{
			Name: "SIGSTOP, SIGCONT too late", Hold: tooLong, Codes: slow, Shows: Timeout,
			Break: func(r *Rig) { r.Backend.Freeze() },
			Mend:  func(r *Rig) { r.Backend.Thaw() },
		},
	}
}

func healed(r *Rig) { r.Proxy.Heal() }
