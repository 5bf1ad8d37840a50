// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outrigger-mcp/outrigger/internal/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// ofGuard shows what stands around the calls of the backend.
func ofGuard(guard *resilience.Guard) []prometheus.Collector {
	type stats = resilience.Stats
	out := []prometheus.Collector{newGroup(guard.Stats,
		counter("breaker_opened_total", "Times that the backend's circuit breaker opened.", func(s stats) uint64 { return s.Opened }),
		counter("breaker_held_total", "Calls answered UNAVAILABLE because the backend's circuit breaker was open.", func(s stats) uint64 { return s.Held }),
		counter("retries_total", "Retries of calls.", func(s stats) uint64 { return s.Repeated }),
		counter("retries_over_budget_total", "Retries that the retry budget did not allow.", func(s stats) uint64 { return s.OverBudget }),
		counter("tool_breaker_opened_total", "Times that a tool's circuit breaker opened because its calls timed out.", func(s stats) uint64 { return s.ToolsOpened }),
		counter("tool_breaker_held_total", "Calls answered UNAVAILABLE because their tool's circuit breaker was open.", func(s stats) uint64 { return s.ToolsHeld }),
	), toolStates{guard, prometheus.NewDesc(namespace+"_tool_breaker_state",
		"1 for the current state of a tool's circuit breaker; tools with a closed breaker have no series.", []string{"tool", "state"}, nil)}}
	return append(out, states[resilience.State]{
		desc:  prometheus.NewDesc(namespace+"_breaker_state", "1 for the current state of the backend's circuit breaker.", []string{"state"}, nil),
		among: resilience.States(), now: func() resilience.State { return guard.Stats().Breaker },
	})
}

// toolStates is a collector of the tools that are held back.
type toolStates struct {
	guard *resilience.Guard
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
		out <- labelled(t.desc, prometheus.GaugeValue, float64(s.MoreTools), "other", resilience.Open.String())
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
