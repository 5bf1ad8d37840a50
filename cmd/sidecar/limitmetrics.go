// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/outrigger-mcp/outrigger/internal/metrics"
)

// limitMetrics shows every limit of the configuration: how much there may be, and,
// where somebody counts it, how much there is and how often it was too little. A
// test holds the list against the fields of the message.
func (a *app) limitMetrics() []metrics.Limit {
	limits := a.cfg.GetLimits()
	slots, flights := a.slots, a.bridge.Flights()
	amount := func(name string, most float64) metrics.Limit {
		return metrics.Limit{Name: name, Most: func() float64 { return most }}
	}
	used := func(name string, most float64, used func() float64, refused func() uint64) metrics.Limit {
		l := amount(name, most)
		l.Used, l.Refused = used, refused
		return l
	}
	all := []metrics.Limit{
		amount("max_message_bytes", float64(limits.GetMaxMessageBytes())),
		amount("max_json_depth", float64(limits.GetMaxJsonDepth())),
		amount("max_id_bytes", float64(limits.GetMaxIdBytes())),
		amount("max_batch_entries", float64(limits.GetMaxBatchEntries())),
		used("max_in_flight", float64(limits.GetMaxInFlight()), func() float64 { return float64(flights.InFlight()) }, flights.Refused),
		used("max_concurrent_calls", float64(limits.GetMaxConcurrentCalls()),
			func() float64 { return float64(slots.Stats().Running) },
			func() uint64 { s := slots.Stats(); return s.Full + s.Expired }),
		used("max_queued_calls", float64(limits.GetMaxQueuedCalls()),
			func() float64 { return float64(slots.Stats().Waiting) }, func() uint64 { return slots.Stats().Full }),
		used("max_queue_wait", limits.GetMaxQueueWait().AsDuration().Seconds(), nil, func() uint64 { return slots.Stats().Expired }),
		amount("max_result_bytes", float64(limits.GetMaxResultBytes())),
		amount("max_result_items", float64(limits.GetMaxResultItems())),
		used("max_streams", float64(limits.GetMaxStreams()), a.streams, a.streamsRefused),
		used("max_sessions", float64(limits.GetMaxSessions()),
			func() float64 { return float64(a.sessions.Stats().Sessions) }, func() uint64 { return a.sessions.Stats().Evicted }),
		used("session_idle_timeout", limits.GetSessionIdleTimeout().AsDuration().Seconds(), nil, func() uint64 { return a.sessions.Stats().Expired }),
		used("max_tasks", float64(limits.GetMaxTasks()),
			func() float64 { return float64(a.tasks.Stats().Running) }, func() uint64 { return a.tasks.Stats().Stayed }),
		amount("task_ttl", limits.GetTaskTtl().AsDuration().Seconds()),
		used("max_subscriber_backlog", float64(limits.GetMaxSubscriberBacklog()), nil, func() uint64 { return a.bus.Stats().Dropped }),
		amount("read_header_timeout", limits.GetReadHeaderTimeout().AsDuration().Seconds()),
		amount("read_body_timeout", limits.GetReadBodyTimeout().AsDuration().Seconds()),
		amount("idle_timeout", limits.GetIdleTimeout().AsDuration().Seconds()),
		amount("max_header_bytes", float64(limits.GetMaxHeaderBytes())),
		amount("keep_alive_interval", limits.GetKeepAliveInterval().AsDuration().Seconds()),
		amount("catalog_wait", limits.GetCatalogWait().AsDuration().Seconds()),
		amount("drain_grace", limits.GetDrainGrace().AsDuration().Seconds()),
		amount("caller_rate", limits.GetCallerRate().GetPerSecond()),
		amount("tool_rate", limits.GetToolRate().GetPerSecond()),
		amount("max_page_entries", float64(limits.GetMaxPageEntries())),
	}
	memory := a.memory.Stats()
	return append(all, used("max_memory_bytes", float64(memory.Limit),
		func() float64 { return float64(a.memory.Stats().Used) }, func() uint64 { return a.memory.Stats().Refused }))
}

// streams is how many streams are open at the tool API.
func (a *app) streams() float64 {
	if a.api == nil {
		return 0
	}
	open, _ := a.api.Streams()
	return float64(open)
}

// streamsRefused is how many more there would be.
func (a *app) streamsRefused() uint64 {
	if a.api == nil {
		return 0
	}
	_, refused := a.api.Streams()
	return refused
}
