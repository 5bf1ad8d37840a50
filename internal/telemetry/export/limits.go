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

// limits is a collector of the process' bounds: three metrics with a series for
// each limit, so that one rule watches all of them.
type limits struct {
	all                 []Limit
	used, most, refused *prometheus.Desc
}

func newLimits(all []Limit) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{"limit"}, nil)
	}
	return limits{
		all:     all,
		used:    desc("limit_used", "Current usage of a limit, by the limit's configuration field."),
		most:    desc("limit_max", "Value of the limit, in the unit of outrigger_limit_used."),
		refused: desc("limit_refused_total", "Requests, connections or other items rejected or ended early because a limit was reached."),
	}
}

// Describe implements [prometheus.Collector].
func (l limits) Describe(out chan<- *prometheus.Desc) {
	out <- l.used
	out <- l.most
	out <- l.refused
}

// Collect implements [prometheus.Collector].
func (l limits) Collect(out chan<- prometheus.Metric) {
	for _, one := range l.all {
		if one.Used != nil {
			out <- labelled(l.used, prometheus.GaugeValue, one.Used(), one.Name)
		}
		if one.Most != nil {
			out <- labelled(l.most, prometheus.GaugeValue, one.Most(), one.Name)
		}
		if one.Refused != nil {
			out <- labelled(l.refused, prometheus.CounterValue, float64(one.Refused()), one.Name)
		}
	}
}

// labelled is one number of a metric with labels. A label that is no text shows
// as an error of the scrape.
func labelled(desc *prometheus.Desc, kind prometheus.ValueType, n float64, labels ...string) prometheus.Metric {
	made, err := prometheus.NewConstMetric(desc, kind, n, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return made
}

// classes is a collector of the configured classes of tools and callers, and of the calls that were rejected, by tool. The
// configuration bounds the number of classes.
type classes struct {
	slots                                                   *policy.Slots
	running, waiting, reserved, rejectedByClass, rejectedBy *prometheus.Desc
}

func newClasses(slots *policy.Slots) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return classes{
		slots:           slots,
		running:         desc("class_running", "Running calls of a class of tools or callers.", "of", "class"),
		waiting:         desc("class_waiting", "Queued calls of a class of tools or callers.", "of", "class"),
		reserved:        desc("class_reserved", "Slots that only calls of a class may use.", "of", "class"),
		rejectedByClass: desc("class_rejected_total", "Calls of a class that got no slot, by the configuration field of the limit.", "of", "class", "limit"),
		rejectedBy: desc("queue_rejected_total", "Calls of a tool that got no slot, by the configuration field of the limit; the tool is empty for "+
			"calls that were not read, and \"other\" beyond the first 256 tools.", "tool", "limit"),
	}
}

// Describe implements [prometheus.Collector].
func (c classes) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.running, c.waiting, c.reserved, c.rejectedByClass, c.rejectedBy} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c classes) Collect(out chan<- prometheus.Metric) {
	tools, callers := c.slots.Classes()
	c.send(out, "tools", tools)
	c.send(out, "callers", callers)
	for why, counts := range c.slots.Rejected() {
		for _, n := range counts {
			out <- labelled(c.rejectedBy, prometheus.CounterValue, float64(n.Count), n.Tool, why.String())
		}
	}
}

func (c classes) send(out chan<- prometheus.Metric, of string, all []policy.ClassStats) {
	for _, one := range all {
		out <- labelled(c.running, prometheus.GaugeValue, float64(one.Running), of, one.Name)
		out <- labelled(c.waiting, prometheus.GaugeValue, float64(one.Waiting), of, one.Name)
		out <- labelled(c.reserved, prometheus.GaugeValue, float64(one.Reserved), of, one.Name)
		for why, n := range one.Rejected {
			out <- labelled(c.rejectedByClass, prometheus.CounterValue, float64(n), of, one.Name, policy.Reason(why).String())
		}
	}
}

// contention is a collector of who waits for whom while calls are queued.
type contention struct {
	slots                                            *policy.Slots
	toolRunning, toolWaiting, toolLimit, toolLongest *prometheus.Desc
	callerRunning, callerWaiting, callerLongest      *prometheus.Desc
	turnsWaiting, turnWaits                          *prometheus.Desc
}

func newContention(slots *policy.Slots) prometheus.Collector {
	desc := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{label}, nil)
	}
	return contention{
		slots:         slots,
		toolRunning:   desc("queue_tool_running", "Running calls of a tool, while any call is queued.", "tool"),
		toolWaiting:   desc("queue_tool_waiting", "Queued calls of a tool.", "tool"),
		toolLimit:     desc("queue_tool_concurrency_limit", "Adaptive concurrency limit of a tool, while any call is queued.", "tool"),
		toolLongest:   desc("queue_tool_oldest_seconds", "Age of the oldest queued call of a tool.", "tool"),
		callerRunning: desc("queue_caller_running", "Running calls of a caller, while any call is queued.", "caller"),
		callerWaiting: desc("queue_caller_waiting", "Queued calls of a caller.", "caller"),
		callerLongest: desc("queue_caller_oldest_seconds", "Age of the oldest queued call of a caller.", "caller"),
		turnsWaiting:  desc("turns_waiting", "Messages that wait for their turn on the CPU.", "kind"),
		turnWaits:     desc("turn_waits_total", "Messages that had to wait for their turn on the CPU.", "kind"),
	}
}

// Describe implements [prometheus.Collector].
func (c contention) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements [prometheus.Collector].
func (c contention) Collect(out chan<- prometheus.Metric) {
	now := c.slots.Contention()
	send := func(desc *prometheus.Desc, value float64, name string) {
		out <- labelled(desc, prometheus.GaugeValue, value, name)
	}
	for _, t := range now.Tools {
		send(c.toolRunning, float64(t.Running), t.Name)
		send(c.toolWaiting, float64(t.Waiting), t.Name)
		send(c.toolLimit, float64(t.Limit), t.Name)
		send(c.toolLongest, t.Longest.Seconds(), t.Name)
	}
	for _, h := range now.Callers {
		send(c.callerRunning, float64(h.Running), h.Name)
		send(c.callerWaiting, float64(h.Waiting), h.Name)
		send(c.callerLongest, h.Longest.Seconds(), h.Name)
	}
	for kind, t := range c.slots.Turns() {
		send(c.turnsWaiting, float64(t.Waiting), kind.String())
		out <- labelled(c.turnWaits, prometheus.CounterValue, float64(t.Waits), kind.String())
	}
}

// refused is a collector of what the policy refused, by canonical code and tool.
// The parts that count bound the number of tools, and so that of the series.
type refused struct {
	desc *prometheus.Desc
	// parts are the counts of each code.
	parts map[errmap.Code]func() []policy.Refusals
}

// newRefused is a collector of the gate's and the limiter's refusals; either may
// be nil.
func newRefused(gate *policy.Gate, limiter *policy.Limiter) prometheus.Collector {
	r := refused{
		desc: prometheus.NewDesc(namespace+"_calls_refused_total",
			"Calls blocked by the destructive gate and rate-limited requests, by canonical code and tool; the tool is empty for "+
				"requests that call no tool, and \"other\" beyond the first 256 tools.",
			[]string{"code", "tool"}, nil),
		parts: map[errmap.Code]func() []policy.Refusals{errmap.RateLimited: limiter.Refused},
	}
	if gate != nil {
		r.parts[errmap.DestructiveBlocked] = gate.Refused
	}
	return r
}

// Describe implements [prometheus.Collector].
func (r refused) Describe(out chan<- *prometheus.Desc) { out <- r.desc }

// Collect implements [prometheus.Collector].
func (r refused) Collect(out chan<- prometheus.Metric) {
	for code, counts := range r.parts {
		for _, n := range counts() {
			out <- labelled(r.desc, prometheus.CounterValue, float64(n.Count), string(code), n.Tool)
		}
	}
}

// RateService is a snapshot of the questions to the rate limit service.
type RateService struct {
	// OK and OverLimit count answers, Errors and Timeouts questions without one. Cancelled
	// counts questions whose request ended first.
	OK, OverLimit, Errors, Timeouts, Cancelled uint64
	// SkippedBreaker and SkippedFull count requests that were not asked about.
	SkippedBreaker, SkippedFull uint64
	// InFlight is the number of open questions, MaxInFlight its limit.
	InFlight, MaxInFlight int
	// Failing is set while the service is not asked because it kept failing.
	Failing bool
	// Took are the durations of questions, without cancelled ones.
	Took telemetry.Histogram
}

// rateService collects what was asked of the rate limit service.
type rateService struct {
	snapshot               func() RateService
	numbers                prometheus.Collector
	requests, skips, times *prometheus.Desc
}

func newRateService(snapshot func() RateService) prometheus.Collector {
	return rateService{
		snapshot: snapshot,
		numbers: newGroup(snapshot,
			gauge("rate_service_in_flight", "Requests to the rate limit service in flight.", func(r RateService) float64 { return float64(r.InFlight) }),
			gauge("rate_service_max_in_flight", "Maximum requests to the rate limit service in flight.", func(r RateService) float64 { return float64(r.MaxInFlight) }),
			state("rate_service_failing", "1 while the rate limit service is not asked because it kept failing.", func(r RateService) bool { return r.Failing })),
		requests: prometheus.NewDesc(namespace+"_rate_service_requests_total",
			"Requests to the rate limit service by outcome: ok, over_limit, error, timeout, or cancelled (the caller was gone first).", []string{"outcome"}, nil),
		skips: prometheus.NewDesc(namespace+"_rate_service_skipped_total",
			"Calls and listings that the rate limit service was not asked about, by reason: breaker (it kept failing) or max_in_flight.", []string{"reason"}, nil),
		times: prometheus.NewDesc(namespace+"_rate_service_duration_seconds",
			"Duration of requests to the rate limit service.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (r rateService) Describe(out chan<- *prometheus.Desc) {
	r.numbers.Describe(out)
	for _, desc := range []*prometheus.Desc{r.requests, r.skips, r.times} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (r rateService) Collect(out chan<- prometheus.Metric) {
	r.numbers.Collect(out)
	s := r.snapshot()
	for _, one := range []struct {
		desc  *prometheus.Desc
		n     uint64
		label string
	}{
		{r.requests, s.OK, "ok"},
		{r.requests, s.OverLimit, "over_limit"},
		{r.requests, s.Errors, "error"},
		{r.requests, s.Timeouts, "timeout"},
		{r.requests, s.Cancelled, "cancelled"},
		{r.skips, s.SkippedBreaker, "breaker"},
		{r.skips, s.SkippedFull, "max_in_flight"},
	} {
		out <- labelled(one.desc, prometheus.CounterValue, float64(one.n), one.label)
	}
	out <- s.Took.Metric(r.times)
}

// ofGuard shows what stands around the calls of the backend.
func ofGuard(guard *backend.Guard) []prometheus.Collector {
	type stats = backend.GuardStats
	out := []prometheus.Collector{newGroup(guard.Stats,
		counter("breaker_opened_total", "Times that the backend's circuit breaker opened.", func(s stats) uint64 { return s.Opened }),
		counter("breaker_held_total", "Calls answered UNAVAILABLE because the backend's circuit breaker was open.", func(s stats) uint64 { return s.Held }),
		counter("retries_total", "Retries of calls.", func(s stats) uint64 { return s.Repeated }),
		counter("retries_over_budget_total", "Retries that the retry budget did not allow.", func(s stats) uint64 { return s.OverBudget }),
		counter("tool_breaker_opened_total", "Times that a tool's circuit breaker opened because its calls timed out.", func(s stats) uint64 { return s.ToolsOpened }),
		counter("tool_breaker_held_total", "Calls answered UNAVAILABLE because their tool's circuit breaker was open.", func(s stats) uint64 { return s.ToolsHeld }),
	), toolStates{guard, prometheus.NewDesc(namespace+"_tool_breaker_state",
		"1 for the current state of a tool's circuit breaker; tools with a closed breaker have no series.", []string{"tool", "state"}, nil)}}
	return append(out, states[backend.BreakerState]{
		desc:  prometheus.NewDesc(namespace+"_breaker_state", "1 for the current state of the backend's circuit breaker.", []string{"state"}, nil),
		among: backend.BreakerStates(), now: func() backend.BreakerState { return guard.Stats().Breaker },
	})
}

// toolStates is a collector of the tools that are held back.
type toolStates struct {
	guard *backend.Guard
	desc  *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (t toolStates) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect implements [prometheus.Collector]. It counts tools beyond the limit together
// as "other". No tool has this name, because tool names contain a dot.
func (t toolStates) Collect(out chan<- prometheus.Metric) {
	s := t.guard.Stats()
	for _, held := range s.Tools {
		out <- labelled(t.desc, prometheus.GaugeValue, 1, held.Tool, held.State.String())
	}
	if s.MoreTools > 0 {
		out <- labelled(t.desc, prometheus.GaugeValue, float64(s.MoreTools), "other", backend.BreakerOpen.String())
	}
}

// ofLife shows what the process is doing.
func ofLife(life *lifecycle.Machine) prometheus.Collector {
	return states[lifecycle.State]{
		desc:  prometheus.NewDesc(namespace+"_lifecycle_state", "1 for the current state of the process.", []string{"state"}, nil),
		among: lifecycle.States(), now: life.State,
	}
}

// states is a collector of a state: a series for each that there may be, of which
// one is 1.
type states[S interface {
	comparable
	String() string
}] struct {
	desc  *prometheus.Desc
	among []S
	now   func() S
}

// Describe implements [prometheus.Collector].
func (s states[S]) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements [prometheus.Collector].
func (s states[S]) Collect(out chan<- prometheus.Metric) {
	now := s.now()
	for _, one := range s.among {
		n := 0.0
		if one == now {
			n = 1
		}
		out <- labelled(s.desc, prometheus.GaugeValue, n, one.String())
	}
}
