// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	stored "github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/taskstore"
)

// Shared is a snapshot of the state that replicas share.
type Shared struct {
	// Available means that NATS can be used.
	Available bool
	// Stores are the counts of each bucket and stream.
	Stores []stored.Stats
	// Tasks are the counts of this replica, Known the tasks of all replicas.
	Tasks task.Stats
	Known taskstore.Stats
	// EventsLost counts events that this replica never saw.
	EventsLost uint64
}

// shared collects the metrics of stores by their names, and the plain ones of a group.
type shared struct {
	snapshot                      func() Shared
	operations, took, bytes, told *prometheus.Desc
	size, most                    *prometheus.Desc
	plain                         prometheus.Collector
}

func newShared(snapshot func() Shared) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &shared{
		snapshot:   snapshot,
		operations: desc("state_operations_total", "Operations on the shared state, by store and outcome.", "store", "operation", "outcome"),
		took:       desc("state_operation_duration_seconds", "Durations of operations on the shared state.", "store", "operation"),
		bytes:      desc("state_bytes_total", "Bytes written to the shared state and read from it.", "store", "direction"),
		told:       desc("state_changes_total", "Changes of the shared state that this replica heard of.", "store"),
		size:       desc("state_stored_bytes", "Size of what is stored, as NATS counts it.", "store"),
		most:       desc("state_max_bytes", "Maximum size of what is stored.", "store"),
		plain: newGroup(snapshot,
			state("state_available", "Whether the shared state can be used (0 or 1).", func(s Shared) bool { return s.Available }),
			gauge("state_tasks", "Stored tasks of all replicas, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Tasks) }),
			gauge("state_task_bytes", "Size of the stored tasks of all replicas; small ones count 4 KiB.", func(s Shared) float64 { return float64(s.Known.Bytes) }),
			gauge("state_replicas", "Replicas that hold a lease, as this one knows them.", func(s Shared) float64 { return float64(s.Known.Owners) }),
			counter("state_events_lost_total", "Events of the bus that were dropped before this replica read them; its subscribers are told.", func(s Shared) uint64 { return s.EventsLost }),
			counter("task_takeovers_total", "Tasks of replicas that stopped, whose work was run again here.", func(s Shared) uint64 { return s.Tasks.TakenOver }),
			counter("tasks_outcome_unknown_total", "Tasks that ended as failed here, because the outcome of their work is unknown.", func(s Shared) uint64 { return s.Tasks.Unknown }),
			counter("tasks_handed_over_total", "Running tasks that a drain left to other replicas.", func(s Shared) uint64 { return s.Tasks.HandedOver }),
			counter("tasks_lost_total", "Running tasks that were cancelled here, because another replica had taken them over.", func(s Shared) uint64 { return s.Tasks.Lost }),
		),
	}
}

// Describe implements [prometheus.Collector].
func (s *shared) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.operations, s.took, s.bytes, s.told, s.size, s.most} {
		out <- d
	}
	s.plain.Describe(out)
}

// Collect implements [prometheus.Collector].
func (s *shared) Collect(out chan<- prometheus.Metric) {
	for _, store := range s.snapshot().Stores {
		for op, ended := range store.Ended {
			for outcome, n := range ended {
				out <- count(s.operations, n, store.Store, op.String(), outcome.String())
			}
			out <- buckets(s.took, store.Took[op], store.Store, op.String())
		}
		out <- count(s.bytes, store.Written, store.Store, "written")
		out <- count(s.bytes, store.Read, store.Store, "read")
		out <- count(s.told, store.Watched, store.Store)
		if store.MaxSize > 0 {
			out <- labelled(s.size, prometheus.GaugeValue, float64(store.Size), store.Store)
			out <- labelled(s.most, prometheus.GaugeValue, float64(store.MaxSize), store.Store)
		}
	}
	s.plain.Collect(out)
}

// count is a counter with labels.
func count(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return labelled(desc, prometheus.CounterValue, float64(n), labels...)
}
