// SPDX-License-Identifier: Apache-2.0

package telemetry

// Signal is a kind of telemetry.
type Signal int

// The signals.
const (
	Traces Signal = iota
	Metrics
	Logs
	numSignals
)

// Signals returns all signals.
func Signals() []Signal { return []Signal{Traces, Metrics, Logs} }

// String returns the name of the signal, as in the configuration and in metrics.
func (s Signal) String() string { return [numSignals]string{"traces", "metrics", "logs"}[s] }

// path is where a collector accepts the signal.
func (s Signal) path() string { return "/v1/" + s.String() }
