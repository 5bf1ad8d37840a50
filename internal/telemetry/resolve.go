// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Report is called with each fault: the variable or the path of the field, and what is wrong with it.
type Report func(at, message string)

// defaultEndpoint is OpenTelemetry's.
const defaultEndpoint = "http://localhost:4318"

// Bounds of variables that the configuration has no field for.
const (
	maxBatch       = 512
	maxAttributes  = 128
	maxValueBytes  = 4 << 10
	maxLinks       = 128
	maxEvents      = 128
	batchTimeout   = 30 * time.Second
	maxMillis      = 24 * 60 * 60 * 1000
	maxQueueLength = 1 << 16
)

// Resolve returns the settings of a configuration and the environment (in the form of os.Environ), which overrides it. It
// reports everything that is wrong. With faults, the settings are not to be used.
func Resolve(cfg *configv1.Telemetry, environ []string, report Report) *Settings {
	r := &reader{cfg: cfg, vars: variables(environ), report: once(report)}
	s := &Settings{config: cfg, maxBytes: cfg.GetMaxQueuedBytes(), flush: cfg.GetFlushTimeout().AsDuration()}
	if r.flag("OTEL_SDK_DISABLED") {
		return s
	}
	s.propagator = r.propagator()
	r.fileHeaders()
	for _, signal := range Signals() {
		s.exporters[signal] = r.exporter(signal)
	}
	if !s.IsOn() {
		return s
	}
	s.sampling = r.sampler()
	s.resource = r.resource()
	s.limits, s.records = r.spanLimits(), r.recordLimits()
	s.batches[Traces], s.batches[Logs] = r.batch("OTEL_BSP_"), r.batch("OTEL_BLRP_")
	s.interval = r.millis("OTEL_METRIC_EXPORT_INTERVAL", cfg.GetMetricInterval().AsDuration())
	s.timeout = r.millis("OTEL_METRIC_EXPORT_TIMEOUT", batchTimeout)
	r.checkTemporality()
	return s
}

// once drops faults that are reported again: signals share variables.
func once(report Report) Report {
	type fault struct{ at, message string }
	seen := make(map[fault]bool)
	return func(at, message string) {
		if f := (fault{at, message}); !seen[f] {
			seen[f] = true
			report(at, message)
		}
	}
}

// reader reads the settings and reports faults.
type reader struct {
	cfg     *configv1.Telemetry
	vars    map[string]string
	report  Report
	headers map[string]string // of the file
}

// exporter reads where a signal goes.
func (r *reader) exporter(signal Signal) exporter {
	if !r.isOn(signal) {
		return exporter{}
	}
	r.checkProtocol(signal)
	e := exporter{isOn: true, url: r.endpoint(signal), headers: r.headersOf(signal), isGzip: r.isGzip(signal)}
	name, value := r.either(signal, "TIMEOUT")
	e.timeout = r.cfg.GetExportTimeout().AsDuration()
	if value != "" {
		e.timeout = r.millis(name, e.timeout)
	}
	e.tls = r.tlsFiles(signal)
	r.checkTLS(signal, e)
	return e
}

// isOn decides whether a signal is exported: its own variable first, then the file's "on" or "off", then whether there is
// an endpoint.
func (r *reader) isOn(signal Signal) bool {
	name := "OTEL_" + strings.ToUpper(signal.String()) + "_EXPORTER"
	switch value := strings.ToLower(r.vars[name]); value {
	case "":
	case "otlp":
		return true
	case "none":
		return false
	case "prometheus":
		r.report(name, "prometheus is not an exporter here: GET /metrics of the admin listener serves Prometheus in any case; use otlp or none")
		return false
	default:
		r.report(name, fmt.Sprintf("unknown exporter %q: use otlp or none", r.vars[name]))
		return false
	}
	if r.vars[endpointVariable(signal)] != "" {
		return true
	}
	switch r.said(signal) {
	case "on":
		return true
	case "off":
		return false
	}
	return r.cfg.GetEndpoint() != "" || r.vars["OTEL_EXPORTER_OTLP_ENDPOINT"] != ""
}

// said is what the file says about a signal.
func (r *reader) said(signal Signal) string {
	return [numSignals]string{r.cfg.GetTraces(), r.cfg.GetMetrics(), r.cfg.GetLogs()}[signal]
}

// checkProtocol refuses protocols that the binary does not have.
func (r *reader) checkProtocol(signal Signal) {
	switch name, value := r.either(signal, "PROTOCOL"); value {
	case "", "http/protobuf":
	case "grpc":
		r.report(name, "grpc is not supported: set it to http/protobuf, and the endpoint to the collector's port for it, usually 4318")
	default:
		r.report(name, fmt.Sprintf("unsupported protocol %q: use http/protobuf", value))
	}
}

// checkTemporality refuses what the metrics cannot be: they are the counts of the Prometheus page.
func (r *reader) checkTemporality() {
	const name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
	if value := strings.ToLower(r.vars[name]); value != "" && value != "cumulative" {
		r.report(name, fmt.Sprintf("unsupported temporality %q: use cumulative; collectors can convert it (cumulativetodelta)", r.vars[name]))
	}
}

func (r *reader) isGzip(signal Signal) bool {
	name, value := r.either(signal, "COMPRESSION")
	switch value {
	case "":
		return r.cfg.GetCompression() == "gzip"
	case "gzip":
		return true
	case "none":
	default:
		r.report(name, fmt.Sprintf("unknown compression %q: use gzip or none", value))
	}
	return false
}

// batch reads how items are collected; prefix begins the variables.
func (r *reader) batch(prefix string) batch {
	queue := r.number(prefix+"MAX_QUEUE_SIZE", int(r.cfg.GetMaxQueuedItems()), 1, maxQueueLength)
	return batch{
		queue:   queue,
		size:    min(queue, r.number(prefix+"MAX_EXPORT_BATCH_SIZE", maxBatch, 1, maxQueueLength)),
		delay:   r.millis(prefix+"SCHEDULE_DELAY", r.cfg.GetBatchDelay().AsDuration()),
		timeout: r.millis(prefix+"EXPORT_TIMEOUT", batchTimeout),
	}
}

// spanLimits reads what one span may have. Unlike OpenTelemetry's default, values have a maximum length.
func (r *reader) spanLimits() tracing.Limits {
	count := r.number("OTEL_ATTRIBUTE_COUNT_LIMIT", maxAttributes, 0, math.MaxInt32)
	// No link has attributes, so their limit is only checked.
	r.number("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", count, 0, math.MaxInt32)
	return tracing.Limits{
		Value:           r.number("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", r.valueBytes(), 0, math.MaxInt32),
		Attributes:      r.number("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", count, 0, math.MaxInt32),
		Events:          r.number("OTEL_SPAN_EVENT_COUNT_LIMIT", maxEvents, 0, math.MaxInt32),
		Links:           r.number("OTEL_SPAN_LINK_COUNT_LIMIT", maxLinks, 0, math.MaxInt32),
		EventAttributes: r.number("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", count, 0, math.MaxInt32),
	}
}

func (r *reader) recordLimits() recordLimits {
	return recordLimits{
		attributes: r.number("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", r.number("OTEL_ATTRIBUTE_COUNT_LIMIT", maxAttributes, 0, math.MaxInt32), 0, math.MaxInt32),
		valueBytes: r.number("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", r.valueBytes(), 0, math.MaxInt32),
	}
}

// valueBytes is the longest value of an attribute: longer where arguments and results are to fit.
func (r *reader) valueBytes() int {
	most := maxValueBytes
	if r.cfg.GetPayloads() {
		most = max(most, int(r.cfg.GetMaxPayloadBytes()))
	}
	return r.number("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", most, 0, math.MaxInt32)
}

// fileFault says why a file cannot be read, without what is in it.
func fileFault(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf("cannot read %s: %v", path.Path, path.Err)
	}
	return err.Error()
}
