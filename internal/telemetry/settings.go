// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Settings are what the variables and the configuration say together. Make them with [Resolve].
type Settings struct {
	exporters  [numSignals]exporter
	batches    [numSignals]batch // of traces and logs
	sampling   tracing.Sampling
	propagator propagation.TextMapPropagator
	limits     tracing.Limits
	records    recordLimits
	resource   []attribute.KeyValue
	maxBytes   int64
	interval   time.Duration // of metrics
	timeout    time.Duration // of one export of metrics, collecting included
	flush      time.Duration
	config     *configv1.Telemetry
}

// exporter is where a signal goes. The zero value is off.
type exporter struct {
	isOn    bool
	url     string
	headers map[string]string
	timeout time.Duration // of one attempt
	isGzip  bool
	tls     tlsFiles
}

type tlsFiles struct{ ca, cert, key string }

// batch is how items are collected for an export.
type batch struct {
	queue, size    int
	delay, timeout time.Duration
}

type recordLimits struct{ attributes, valueBytes int }

// IsOn reports whether any signal is exported.
func (s *Settings) IsOn() bool {
	return slices.ContainsFunc(Signals(), s.Exports)
}

// Exports reports whether a signal is exported.
func (s *Settings) Exports(signal Signal) bool { return s != nil && s.exporters[signal].isOn }

// Endpoint returns where a signal is exported to; empty if it is not.
func (s *Settings) Endpoint(signal Signal) string {
	if !s.Exports(signal) {
		return ""
	}
	return s.exporters[signal].url
}
