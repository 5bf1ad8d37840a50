// SPDX-License-Identifier: Apache-2.0

package export

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Limit is a limit of the process and its current use. The code that enforces the limit
// keeps the counts; a scrape reads them.
type Limit struct {
	// Name is the limit's field in the configuration ("max_in_flight"), so that an
	// operator who sees it reached knows what to change.
	Name string
	// Used and Most return the current value and the maximum, in the same unit. For a
	// limit without an amount, such as a timeout, both are nil.
	Used, Most func() float64
	// Refused returns how many times something was refused or ended because of this
	// limit. It is nil if this is not counted.
	Refused func() uint64
}

// newLimits shows the bounds of the process: three metrics with a series for
// each limit, so that one rule watches all of them.
func newLimits(all []Limit) prometheus.Collector {
	amounts := func(name, help string, of func(Limit) func() float64) metric[[]Limit] {
		return gauges(name, help, func(all []Limit, put func(float64, ...string)) {
			for _, one := range all {
				if read := of(one); read != nil {
					put(read(), one.Name)
				}
			}
		}, "limit")
	}
	return newGroup(is(all),
		amounts("limit_used", "Current usage of a limit, by the limit's configuration field.", func(l Limit) func() float64 { return l.Used }),
		amounts("limit_max", "Value of the limit, in the unit of outrigger_limit_used.", func(l Limit) func() float64 { return l.Most }),
		counters("limit_refused_total", "Requests, connections or other items rejected or ended early because a limit was reached.", func(all []Limit, put func(uint64, ...string)) {
			for _, one := range all {
				if one.Refused != nil {
					put(one.Refused(), one.Name)
				}
			}
		}, "limit"))
}

// newClasses shows the configured classes of tools and callers, and the calls that were rejected, by tool. The
// configuration bounds the number of classes.
func newClasses(slots *policy.Slots) prometheus.Collector {
	type classes = map[string][]policy.ClassStats
	class := func(name, help string, read func(policy.ClassStats) int) metric[classes] {
		return gauges(name, help, func(all classes, put func(float64, ...string)) {
			for of, stats := range all {
				for _, one := range stats {
					put(float64(read(one)), of, one.Name)
				}
			}
		}, "of", "class")
	}
	return newGroup(func() classes {
		tools, callers := slots.Classes()
		return classes{"tools": tools, "callers": callers}
	},
		class("class_running", "Running calls of a class of tools or callers.", func(s policy.ClassStats) int { return s.Running }),
		class("class_waiting", "Queued calls of a class of tools or callers.", func(s policy.ClassStats) int { return s.Waiting }),
		class("class_reserved", "Slots that only calls of a class may use.", func(s policy.ClassStats) int { return s.Reserved }),
		counters("class_rejected_total", "Calls of a class that got no slot, by the configuration field of the limit.", func(all classes, put func(uint64, ...string)) {
			for of, stats := range all {
				for _, one := range stats {
					for why, n := range one.Rejected {
						put(n, of, one.Name, policy.Reason(why).String())
					}
				}
			}
		}, "of", "class", "limit"),
		counters("queue_rejected_total", "Calls of a tool that got no slot, by the configuration field of the limit; the tool is empty for "+
			"calls that were not read, and \"other\" beyond the first 256 tools.", func(_ classes, put func(uint64, ...string)) {
			for why, counts := range slots.Rejected() {
				for _, n := range counts {
					put(n.Count, n.Tool, why.String())
				}
			}
		}, "tool", "limit"))
}

// newContention shows who waits for whom while calls are queued.
func newContention(slots *policy.Slots) prometheus.Collector {
	type now = policy.Contention
	running := func(h policy.Holder) float64 { return float64(h.Running) }
	waiting := func(h policy.Holder) float64 { return float64(h.Waiting) }
	longest := func(h policy.Holder) float64 { return h.Longest.Seconds() }
	holders := func(name, help, label string, read func(policy.Holder) float64) metric[now] {
		return gauges(name, help, func(c now, put func(float64, ...string)) {
			all := c.Tools
			if label == "caller" {
				all = c.Callers
			}
			for _, h := range all {
				put(read(h), h.Name)
			}
		}, label)
	}
	return newGroup(slots.Contention,
		holders("queue_tool_running", "Running calls of a tool, while any call is queued.", "tool", running),
		holders("queue_tool_waiting", "Queued calls of a tool.", "tool", waiting),
		holders("queue_tool_concurrency_limit", "Adaptive concurrency limit of a tool, while any call is queued.", "tool", func(h policy.Holder) float64 { return float64(h.Limit) }),
		holders("queue_tool_oldest_seconds", "Age of the oldest queued call of a tool.", "tool", longest),
		holders("queue_caller_running", "Running calls of a caller, while any call is queued.", "caller", running),
		holders("queue_caller_waiting", "Queued calls of a caller.", "caller", waiting),
		holders("queue_caller_oldest_seconds", "Age of the oldest queued call of a caller.", "caller", longest),
		gauges("turns_waiting", "Messages that wait for their turn on the CPU.", func(_ now, put func(float64, ...string)) {
			for kind, t := range slots.Turns() {
				put(float64(t.Waiting), kind.String())
			}
		}, "kind"),
		counters("turn_waits_total", "Messages that had to wait for their turn on the CPU.", func(_ now, put func(uint64, ...string)) {
			for kind, t := range slots.Turns() {
				put(t.Waits, kind.String())
			}
		}, "kind"))
}

// newRefused shows what the gate and the limiter refused, by canonical code and tool; either may be nil.
// The parts that count bound the number of tools, and so that of the series.
func newRefused(gate *policy.Gate, limiter *policy.Limiter) prometheus.Collector {
	parts := map[errmap.Code]func() []policy.Refusals{errmap.RateLimited: limiter.Refused}
	if gate != nil {
		parts[errmap.DestructiveBlocked] = gate.Refused
	}
	return newGroup(is(parts), counters("calls_refused_total", "Calls blocked by the destructive gate and rate-limited requests, by canonical code and tool; the tool is empty for "+
		"requests that call no tool, and \"other\" beyond the first 256 tools.", func(parts map[errmap.Code]func() []policy.Refusals, put func(uint64, ...string)) {
		for code, counts := range parts {
			for _, n := range counts() {
				put(n.Count, string(code), n.Tool)
			}
		}
	}, "code", "tool"))
}

func newRateService(snapshot func() policy.RateServiceStats) prometheus.Collector {
	type stats = policy.RateServiceStats
	return newGroup(snapshot,
		gauge("rate_service_in_flight", "Requests to the rate limit service in flight.", func(s stats) float64 { return float64(s.InFlight) }),
		gauge("rate_service_max_in_flight", "Maximum requests to the rate limit service in flight.", func(s stats) float64 { return float64(s.MaxInFlight) }),
		state("rate_service_failing", "1 while the rate limit service is not asked because it kept failing.", func(s stats) bool { return s.Failing }),
		counters("rate_service_requests_total", "Requests to the rate limit service by outcome: ok, over_limit, error, timeout, or cancelled (the caller was gone first).",
			func(s stats, put func(uint64, ...string)) {
				put(s.OK, "ok")
				put(s.OverLimit, "over_limit")
				put(s.Errors, "error")
				put(s.Timeouts, "timeout")
				put(s.Cancelled, "cancelled")
			}, "outcome"),
		counters("rate_service_skipped_total", "Calls and listings that the rate limit service was not asked about, by reason: breaker (it kept failing) or max_in_flight.",
			func(s stats, put func(uint64, ...string)) {
				put(s.SkippedBreaker, "breaker")
				put(s.SkippedFull, "max_in_flight")
			}, "reason"),
		histograms("rate_service_duration_seconds", "Duration of requests to the rate limit service.", func(s stats, put func(telemetry.Histogram, ...string)) { put(s.Took) }))
}

// ofGuard shows what protects the calls of a backend, whose name is a label where there are several. It counts tools beyond the limit together
// as "other". No tool has this name, because tool names contain a dot.
func ofGuard(name string, guard *backend.Guard) prometheus.Collector {
	type stats = backend.GuardStats
	all := []metric[stats]{
		counter("breaker_opened_total", "Times that the backend's circuit breaker opened.", func(s stats) uint64 { return s.Opened }),
		counter("breaker_held_total", "Calls answered UNAVAILABLE because the backend's circuit breaker was open.", func(s stats) uint64 { return s.Held }),
		counter("retries_total", "Retries of calls.", func(s stats) uint64 { return s.Repeated }),
		counter("retries_over_budget_total", "Retries that the retry budget did not allow.", func(s stats) uint64 { return s.OverBudget }),
		counter("tool_breaker_opened_total", "Times that a tool's circuit breaker opened because its calls timed out.", func(s stats) uint64 { return s.ToolsOpened }),
		counter("tool_breaker_held_total", "Calls answered UNAVAILABLE because their tool's circuit breaker was open.", func(s stats) uint64 { return s.ToolsHeld }),
		gauges("tool_breaker_state", "1 for the current state of a tool's circuit breaker; tools with a closed breaker have no series.", func(s stats, put func(float64, ...string)) {
			for _, held := range s.Tools {
				put(1, held.Tool, held.State.String())
			}
			if s.MoreTools > 0 {
				put(float64(s.MoreTools), "other", backend.BreakerOpen.String())
			}
		}, "tool", "state"),
		states("breaker_state", "1 for the current state of the backend's circuit breaker.", backend.BreakerStates(), func(s stats) backend.BreakerState { return s.Breaker }),
	}
	if name == "" {
		return newGroup(guard.Stats, all...)
	}
	all = append(all,
		gauge("backend_calls_running", "Calls of the backend that are running; only with several backends.", func(s stats) float64 { return float64(s.Running) }),
		counter("backend_calls_full_total", "Calls answered UNAVAILABLE because too many of the backend's calls were running; only with several backends.", func(s stats) uint64 { return s.Full }),
	)
	return prometheus.WrapCollectorWith(prometheus.Labels{"backend": name}, newGroup(guard.Stats, all...))
}

// ofBalance shows the addresses of a backend that has many, whose name is a label where there are several.
func ofBalance(name string, read func() *backend.BalanceStats) prometheus.Collector {
	type stats = *backend.BalanceStats
	all := newGroup(read,
		gauges("backend_addresses", "Addresses of a backend with many, by state: ready, ejected, unreachable, draining (the name has them no longer, and calls run) or left_out.",
			func(s stats, put func(float64, ...string)) {
				of := map[backend.AddressState]int{}
				for _, one := range s.Addresses {
					of[one.State]++
				}
				for _, state := range backend.AddressStates() {
					put(float64(of[state]), state.String())
				}
				put(float64(s.Draining), "draining")
				put(float64(s.LeftOut), "left_out")
			}, "state"),
		gauge("backend_connections", "Open connections to all addresses of a backend with many.", func(s stats) float64 { return float64(s.Connections) }),
		counter("backend_ejections_total", "Times that an address of the backend was ejected after failed calls.", func(s stats) uint64 { return s.Ejections }),
		counters("backend_lookups_total", "Look-ups of the name of a backend with many addresses, by outcome: ok or error.", func(s stats, put func(uint64, ...string)) {
			put(s.Lookups-s.LookupsFailed, "ok")
			put(s.LookupsFailed, "error")
		}, "outcome"))
	if name == "" {
		return all
	}
	return prometheus.WrapCollectorWith(prometheus.Labels{"backend": name}, all)
}

// ofLife shows what the process is doing.
func ofLife(life *lifecycle.Machine) prometheus.Collector {
	return newGroup(life.State, states("lifecycle_state", "1 for the current state of the process.", lifecycle.States(), func(s lifecycle.State) lifecycle.State { return s }))
}

// states are a series for each state that there may be, of which one is 1.
func states[S any, T interface {
	comparable
	String() string
}](name, help string, among []T, now func(S) T) metric[S] {
	return gauges(name, help, func(s S, put func(float64, ...string)) {
		for _, one := range among {
			put(oneIf(one == now(s)), one.String())
		}
	}, "state")
}
