// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// newMetrics shows what the parts of the pipeline count.
func (a *App) newMetrics() (*export.Page, error) {
	return export.NewPage(export.Sources{
		Version:  a.opts.Version,
		Begun:    a.bridge.Begun,
		Repaired: a.bridge.Repaired,
		InFlight: a.bridge.Flights().InFlight,
		Catalog:  a.live,
		Traffic:  a.stats, CallsSkipped: a.calls.Skipped, Reloads: a.reloadMetrics(),
		Authentication: a.front.Authentication(),
		Telemetry:      a.telemetryStats(),
		Identity:       a.behalf.Metrics(),
		Shared:         a.shared.Metrics(),
		Events:         a.shared.Bus,
		Rules:          a.rules,
		Gate:           a.gate,
		Limiter:        a.limiter,
		RateService:    a.rates.Metrics(),
		Lists:          a.says.Lists,
		Slots:          a.slots,
		Watches:        a.watches.Stats,
		Guard:          a.backend.Guard, Life: a.life, Limits: a.limitMetrics(),
		Record: a.record, RecordUnavailable: a.recordUnavailable, Audit: a.trail,
	})
}

// limitMetrics shows every limit of the configuration: how much there may be, how
// much there is where it is an amount, and how often it was too little where
// meeting it refuses something or ends it early. A test holds the list against
// the fields of the message.
func (a *App) limitMetrics() []export.Limit {
	limits := a.cfg.GetLimits()
	gates, slots, flights := a.front.Gates(), a.slots, a.bridge.Flights()
	over := func(name errmap.Limit, most float64) export.Limit {
		return export.Limit{Name: string(name), Most: just(most), Refused: func() uint64 { return a.stats.TimesOver(name) }}
	}
	return []export.Limit{
		over(errmap.LimitMessageBytes, float64(limits.GetMaxMessageBytes())),
		over(errmap.LimitJSONDepth, float64(limits.GetMaxJsonDepth())),
		over(errmap.LimitIDBytes, float64(limits.GetMaxIdBytes())),
		over(errmap.LimitBatchEntries, float64(limits.GetMaxBatchEntries())),
		{
			Name: "max_in_flight", Most: just(float64(limits.GetMaxInFlight())),
			Used: func() float64 { return float64(flights.InFlight()) }, Refused: flights.Refused,
		},
		{
			Name: "max_concurrent_calls", Most: just(float64(limits.GetMaxConcurrentCalls())),
			Used:    func() float64 { return float64(slots.Stats().Running) },
			Refused: func() uint64 { s := slots.Stats(); return s.Full + s.Expired + s.Over },
		},
		{
			Name: "max_queued_calls", Most: just(float64(limits.GetMaxQueuedCalls())),
			Used: func() float64 { return float64(slots.Stats().Waiting) }, Refused: func() uint64 { return slots.Stats().Full },
		},
		{Name: "max_queue_wait", Most: justTime(limits.GetMaxQueueWait()), Refused: func() uint64 { return slots.Stats().Expired }},
		over(errmap.LimitResultBytes, float64(limits.GetMaxResultBytes())),
		over(errmap.LimitResultItems, float64(limits.GetMaxResultItems())),
		{Name: "max_inline_bytes", Most: just(float64(limits.GetMaxInlineBytes()))},
		{
			Name: "max_held_bytes", Most: just(float64(limits.GetMaxHeldBytes())),
			Used: func() float64 { return float64(a.held.Stats().Bytes) }, Refused: func() uint64 { return a.held.Stats().Refused },
		},
		{Name: "result_budget", Most: just(float64(limits.GetResultBudget())), Refused: a.bridge.Reduced},
		{Name: "held_ttl", Most: justTime(limits.GetHeldTtl())},
		{
			Name: "max_watches", Most: just(float64(limits.GetMaxWatches())),
			Used: func() float64 { return float64(a.watches.Stats().Running) }, Refused: func() uint64 { s := a.watches.Stats(); return s.Full + s.Over },
		},
		{Name: "max_watch_bytes", Most: just(float64(limits.GetMaxWatchBytes())), Refused: func() uint64 { return a.watches.Stats().TooLarge }},
		over(errmap.LimitInputItems, float64(limits.GetMaxInputItems())),
		{
			Name: string(errmap.LimitStreams), Most: just(float64(limits.GetMaxStreams())),
			Used: func() float64 { return float64(a.streams.Stats().Used) }, Refused: a.streamsRefused,
		},
		{
			Name: "max_sessions", Most: just(float64(limits.GetMaxSessions())),
			Used: func() float64 { return float64(a.sessions.Stats().Sessions) }, Refused: func() uint64 { return a.sessions.Stats().Evicted + a.stats.TimesOver(errmap.LimitSessions) },
		},
		{Name: "max_session_age", Most: justTime(limits.GetMaxSessionAge()), Refused: func() uint64 { return a.sessions.Stats().TooOld }},
		{
			Name: "max_tasks", Most: just(float64(limits.GetMaxTasks())),
			Used: func() float64 { return float64(a.shared.Tasks.Stats().Running) }, Refused: func() uint64 {
				return a.shared.Tasks.Stats().Stayed + a.shared.Tasks.Stats().Over + a.stats.TimesOver(errmap.LimitTasks)
			},
		},
		{Name: "task_ttl", Most: justTime(limits.GetTaskTtl())},
		{
			Name: "max_subscriber_backlog", Most: just(float64(limits.GetMaxSubscriberBacklog())),
			Refused: func() uint64 { return a.shared.Bus.Stats().Dropped },
		},
		{Name: "read_header_timeout", Most: justTime(limits.GetReadHeaderTimeout()), Refused: a.front.Refused().Slow},
		{Name: "write_timeout", Most: justTime(limits.GetWriteTimeout()), Refused: func() uint64 { return a.slow.Stuck() }},
		{
			Name: "max_buffered_bytes", Most: func() float64 { return a.slow.Most() },
			Used: func() float64 { return float64(a.slow.Stats().Bytes) }, Refused: func() uint64 { s := a.slow.Stats(); return s.Shed + s.Full + s.Over },
		},
		{
			Name: "caller_share_percent", Most: just(float64(limits.GetCallerSharePercent())),
			Refused: a.overShare,
		},
		{
			Name: "tool_share_percent", Most: just(float64(limits.GetToolSharePercent())),
			Refused: func() uint64 { return a.slots.Stats().OverTool + a.slow.Stats().OverTool },
		},
		over(errmap.LimitBodyTime, seconds(limits.GetReadBodyTimeout().AsDuration())),
		{Name: "idle_timeout", Most: justTime(limits.GetIdleTimeout())},
		{Name: "max_header_bytes", Most: just(float64(limits.GetMaxHeaderBytes())), Refused: a.front.Refused().Large},
		{
			Name: string(peer.Full), Most: just(float64(gates.Callers.Most)),
			Used:    func() float64 { return float64(gates.Main().Stats().Open) },
			Refused: gates.Count(func(s peer.GateStats) uint64 { return s.Full + s.Replaced }),
		},
		{
			Name: string(peer.PeerFull), Most: just(float64(gates.Callers.PerPeer)),
			Used:    func() float64 { return float64(gates.Main().Stats().MostOfPeer) },
			Refused: gates.Count(func(s peer.GateStats) uint64 { return s.PeerFull }),
		},
		{Name: "max_connection_requests", Most: just(float64(gates.Callers.Requests)), Refused: func() uint64 { return gates.Main().Stats().Used }},
		{Name: "max_connection_age", Most: just(seconds(gates.Callers.Age)), Refused: func() uint64 { return gates.Main().Stats().Aged }},
		{Name: "max_connection_grace", Most: just(seconds(gates.Callers.Grace)), Refused: func() uint64 { return gates.Main().Stats().Cut }},
		{Name: "keep_alive_interval", Most: justTime(limits.GetKeepAliveInterval())},
		over(errmap.LimitCatalogWait, seconds(limits.GetCatalogWait().AsDuration())),
		{Name: "drain_grace", Most: justTime(limits.GetDrainGrace()), Refused: a.cut.Load},
		{
			Name: "caller_rate", Most: just(limits.GetCallerRate().GetPerSecond()),
			Refused: func() uint64 { callers, _ := a.limiter.Exceeded(); return callers },
		},
		{
			Name: "tool_rate", Most: just(limits.GetToolRate().GetPerSecond()),
			Refused: func() uint64 { _, tools := a.limiter.Exceeded(); return tools },
		},
		over(errmap.LimitPipelined, float64(limits.GetMaxPipelinedRequests())),
		{
			Name: "max_stdio_queue_bytes", Most: just(float64(limits.GetMaxStdioQueueBytes())),
			Used: func() float64 { return float64(a.stdioQueue.Load()) },
		},
		{Name: "max_page_entries", Most: just(float64(limits.GetMaxPageEntries()))},
		{
			Name: "max_learned_types", Most: just(float64(limits.GetMaxLearnedTypes())),
			Used:    func() float64 { return float64(a.live.LearnStats().Types) },
			Refused: func() uint64 { return a.live.LearnStats().Refused },
		},
		{
			Name: "max_tools", Most: just(float64(limits.GetMaxTools())),
			Used: func() float64 {
				if now := a.live.Current(); now != nil {
					return float64(len(now.Tools()))
				}
				return 0
			},
		},
		{Name: "max_descriptor_bytes", Most: just(float64(limits.GetMaxDescriptorBytes()))},
		{
			Name: "max_memory_bytes", Most: func() float64 { return float64(a.memory.Stats().Limit) },
			Used: func() float64 { return float64(a.memory.Stats().Used) }, Refused: func() uint64 { return a.memory.Stats().Refused },
		},
	}
}

// just is an amount that stays.
func just(most float64) func() float64 { return func() float64 { return most } }

// justTime is a time that stays, in seconds.
func justTime(most *durationpb.Duration) func() float64 { return just(seconds(most.AsDuration())) }

func seconds(d time.Duration) float64 { return d.Seconds() }

// streamsRefused is how many more there would be, listen streams included.
func (a *App) streamsRefused() uint64 {
	places := a.streams.Stats()
	return a.stats.TimesOver(errmap.LimitStreams) + places.Full + places.Over + a.front.StreamsRefused()
}

// overShare is how often a caller was refused because it held its share already.
func (a *App) overShare() uint64 {
	return a.slow.Stats().Over + a.slots.Stats().Over + a.streams.Stats().Over + a.shared.Tasks.Stats().Over +
		a.watches.Stats().Over
}

// exportMetrics exports what the metrics page shows.
func (a *App) exportMetrics() error {
	return a.opts.Telemetry.ExportMetrics(export.NewProducer(a.metrics.Gatherer(), a.stats))
}

// telemetryStats returns the counts of the exports; nil without any.
func (a *App) telemetryStats() func() []export.Stats {
	if a.opts.Telemetry == nil {
		return nil
	}
	return a.opts.Telemetry.Stats
}

// leastFlush is how long the last exports may take after a drain that needed its whole
// grace period.
const leastFlush = 500 * time.Millisecond

// closeTelemetry exports what is left, within what is left of the grace period.
func (a *App) closeTelemetry() {
	left := a.cfg.GetLimits().GetDrainGrace().AsDuration()
	if began := a.drainBegan.Load(); began != 0 {
		left -= time.Since(time.Unix(0, began))
	}
	a.opts.Telemetry.Close(max(left, leastFlush))
}
