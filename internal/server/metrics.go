// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
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
		Identity:       a.backend.Identity(),
		Shared:         a.shared.Metrics(),
		Events:         a.shared.Bus,
		Rules:          a.rules,
		Approvals:      a.approvals,
		Gate:           a.gate,
		Limiter:        a.limiter,
		RateService:    a.rates.Metrics(),
		Lists:          a.says.Lists,
		Slots:          a.slots,
		Watches:        a.watches.Stats,
		Webhooks:       a.webhooks.Counts(),
		Guard:          a.backend.Guards(), Balance: a.backend.Balances(), Life: a.life, Limits: a.limitMetrics(),
		Record: a.record, RecordUnavailable: a.recordUnavailable, Audit: a.trail,
	})
}

// limitMetrics shows the limits of the configuration: how much there may be, how
// much there is where it is an amount, and how often it was too little where
// meeting it refuses something or ends it early.
func (a *App) limitMetrics() (all []export.Limit) {
	limits, uses := a.cfg.GetLimits().ProtoReflect(), a.limitUses()
	for _, over := range []errmap.Limit{
		errmap.LimitMessageBytes, errmap.LimitJSONDepth, errmap.LimitIDBytes, errmap.LimitBatchEntries, errmap.LimitResultBytes, errmap.LimitResultItems,
		errmap.LimitInputItems, errmap.LimitBodyTime, errmap.LimitCatalogWait, errmap.LimitPipelined,
	} {
		uses[string(over)] = export.Limit{Refused: func() uint64 { return a.stats.TimesOver(over) }}
	}
	fields := limits.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		one := uses[string(field.Name())]
		one.Name = string(field.Name())
		if one.Most == nil {
			one.Most = amountOf(limits, field)
		}
		if one.Most != nil {
			all = append(all, one)
		}
	}
	return all
}

// amountOf is a limit of the configuration as a number, of seconds where it is a time; nil for one that is none.
func amountOf(limits protoreflect.Message, field protoreflect.FieldDescriptor) func() float64 {
	switch field.Name() {
	case "stream_idle_timeout", "max_stream_time": // each may differ by tool
		return nil
	}
	switch {
	case field.IsList():
		return nil
	case field.Message() == nil:
		return just(float64(limits.Get(field).Int()))
	}
	switch v := limits.Get(field).Message().Interface().(type) {
	case *durationpb.Duration:
		return just(v.AsDuration().Seconds())
	case *configv1.Rate:
		return just(v.GetPerSecond())
	}
	return nil
}

// just is an amount that stays.
func just(most float64) func() float64 { return func() float64 { return most } }

// limitUses are what there is of the limits, by their fields. Most is nil where the configuration says it.
func (a *App) limitUses() map[string]export.Limit {
	gates, slots, flights := a.front.Gates(), a.slots, a.bridge.Flights()
	gate, limit := gates.Main().Stats, gates.Callers
	return map[string]export.Limit{
		"max_in_flight": {Used: func() float64 { return float64(flights.InFlight()) }, Refused: flights.Refused},
		"max_concurrent_calls": {
			Used:    func() float64 { return float64(slots.Stats().Running) },
			Refused: func() uint64 { s := slots.Stats(); return s.Full + s.Expired + s.Over },
		},
		"max_queued_calls": {Used: func() float64 { return float64(slots.Stats().Waiting) }, Refused: func() uint64 { return slots.Stats().Full }},
		"max_queue_wait":   {Refused: func() uint64 { return slots.Stats().Expired }},
		"max_held_bytes":   {Used: func() float64 { return float64(a.held.Stats().Bytes) }, Refused: func() uint64 { return a.held.Stats().Refused }},
		"result_budget":    {Refused: a.bridge.Reduced},
		"max_watches": {
			Used:    func() float64 { return float64(a.watches.Stats().Running) },
			Refused: func() uint64 { s := a.watches.Stats(); return s.Full + s.Over },
		},
		"max_watch_bytes": {Refused: func() uint64 { return a.watches.Stats().TooLarge }},
		"max_streams":     {Used: func() float64 { return float64(a.streams.Stats().Used) }, Refused: a.streamsRefused},
		"max_sessions": {
			Used:    func() float64 { return float64(a.sessions.Stats().Sessions) },
			Refused: func() uint64 { return a.sessions.Stats().Evicted + a.stats.TimesOver(errmap.LimitSessions) },
		},
		"max_session_age": {Refused: func() uint64 { return a.sessions.Stats().TooOld }},
		"max_tasks": {
			Used: func() float64 { return float64(a.shared.Tasks.Stats().Running) },
			Refused: func() uint64 {
				s := a.shared.Tasks.Stats()
				return s.Stayed + s.Over + a.stats.TimesOver(errmap.LimitTasks)
			},
		},
		"max_subscriber_backlog": {Refused: func() uint64 { return a.shared.Bus.Stats().Dropped }},
		"read_header_timeout":    {Refused: a.front.Refused().Slow},
		"max_header_bytes":       {Refused: a.front.Refused().Large},
		"write_timeout":          {Refused: a.slow.Stuck},
		"max_buffered_bytes": {
			Most: a.slow.Most, Used: func() float64 { return float64(a.slow.Stats().Bytes) },
			Refused: func() uint64 { s := a.slow.Stats(); return s.Shed + s.Full + s.Over },
		},
		"caller_share_percent": {Refused: a.overShare},
		"tool_share_percent":   {Refused: func() uint64 { return slots.Stats().OverTool + a.slow.Stats().OverTool }},
		string(peer.Full): {
			Most: just(float64(limit.Most)), Used: func() float64 { return float64(gate().Open) },
			Refused: gates.Count(func(s peer.GateStats) uint64 { return s.Full + s.Replaced }),
		},
		string(peer.PeerFull): {
			Most: just(float64(limit.PerPeer)), Used: func() float64 { return float64(gate().MostOfPeer) },
			Refused: gates.Count(func(s peer.GateStats) uint64 { return s.PeerFull }),
		},
		"max_connection_requests": {Most: just(float64(limit.Requests)), Refused: func() uint64 { return gate().Used }},
		"max_connection_age":      {Most: just(limit.Age.Seconds()), Refused: func() uint64 { return gate().Aged }},
		"max_connection_grace":    {Most: just(limit.Grace.Seconds()), Refused: func() uint64 { return gate().Cut }},
		"drain_grace":             {Refused: a.cut.Load},
		"caller_rate":             {Refused: func() uint64 { callers, _ := a.limiter.Exceeded(); return callers }},
		"tool_rate":               {Refused: func() uint64 { _, tools := a.limiter.Exceeded(); return tools }},
		"max_stdio_queue_bytes":   {Used: func() float64 { return float64(a.stdioQueue.Load()) }},
		"max_learned_types": {
			Used: func() float64 { return float64(a.live.LearnStats().Types) }, Refused: func() uint64 { return a.live.LearnStats().Refused },
		},
		"max_tools": {Used: func() float64 {
			if now := a.live.Current(); now != nil {
				return float64(len(now.Tools()))
			}
			return 0
		}},
		"max_memory_bytes": {
			Most: func() float64 { return float64(a.memory.Stats().Limit) }, Used: func() float64 { return float64(a.memory.Stats().Used) },
			Refused: func() uint64 { return a.memory.Stats().Refused },
		},
	}
}

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
