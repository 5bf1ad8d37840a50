// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Settings are what the variables and the configuration say together. Make them with [Resolve].
type Settings struct {
	exporters  [numSignals]exporter
	batches    [numSignals]batch // of traces and logs
	sampling   telemetry.Sampling
	propagator propagation.TextMapPropagator
	limits     sdktrace.SpanLimits
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
	tls     *keys.ClientOptions // nil for what the system trusts
}

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
	timeout, _ := r.either(signal, "TIMEOUT")
	e.timeout = r.millis(timeout, r.cfg.GetExportTimeout().AsDuration())
	e.tls = r.tls(signal, e.url)
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
func (r *reader) spanLimits() sdktrace.SpanLimits {
	count := r.limit("OTEL_ATTRIBUTE_COUNT_LIMIT", maxAttributes)
	return sdktrace.SpanLimits{
		AttributeValueLengthLimit:   r.limit("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", r.valueBytes()),
		AttributeCountLimit:         r.limit("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", count),
		EventCountLimit:             r.limit("OTEL_SPAN_EVENT_COUNT_LIMIT", maxEvents),
		LinkCountLimit:              r.limit("OTEL_SPAN_LINK_COUNT_LIMIT", maxLinks),
		AttributePerEventCountLimit: r.limit("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", count),
		AttributePerLinkCountLimit:  r.limit("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", count),
		AttributeValueDepthLimit:    -1, // values are texts and numbers
	}
}

func (r *reader) recordLimits() recordLimits {
	return recordLimits{
		attributes: r.limit("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", r.limit("OTEL_ATTRIBUTE_COUNT_LIMIT", maxAttributes)),
		valueBytes: r.limit("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", r.valueBytes()),
	}
}

// valueBytes is the longest value of an attribute: longer where arguments and results are to fit.
func (r *reader) valueBytes() int {
	most := maxValueBytes
	if r.cfg.GetPayloads() {
		most = max(most, int(r.cfg.GetMaxPayloadBytes()))
	}
	return r.limit("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", most)
}

// limit is number for what has no upper bound.
func (r *reader) limit(name string, otherwise int) int {
	return r.number(name, otherwise, 0, math.MaxInt32)
}

// fileFault says why a file cannot be read, without what is in it.
func fileFault(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf("cannot read %s: %v", path.Path, path.Err)
	}
	return err.Error()
}

// prefix begins the variables of OpenTelemetry.
const prefix = "OTEL_"

// variables are those of OpenTelemetry that are set. An empty one counts as unset.
func variables(environ []string) map[string]string {
	vars := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); strings.HasPrefix(name, prefix) && value != "" {
			vars[name] = value
		}
	}
	return vars
}

// ofSignal is the variable of the OTLP exporter for one signal, such as OTEL_EXPORTER_OTLP_TRACES_TIMEOUT.
func ofSignal(signal Signal, what string) string {
	return "OTEL_EXPORTER_OTLP_" + strings.ToUpper(signal.String()) + "_" + what
}

func endpointVariable(signal Signal) string { return ofSignal(signal, "ENDPOINT") }

// either returns the variable of the signal where it is set, else the general one.
func (r *reader) either(signal Signal, what string) (name, value string) {
	if own := ofSignal(signal, what); r.vars[own] != "" {
		return own, r.vars[own]
	}
	name = "OTEL_EXPORTER_OTLP_" + what
	return name, r.vars[name]
}

// flag reads a variable that is true or false.
func (r *reader) flag(name string) bool {
	switch strings.ToLower(r.vars[name]) {
	case "true":
		return true
	case "", "false":
	default:
		r.report(name, fmt.Sprintf("must be true or false, is %q", r.vars[name]))
	}
	return false
}

// number reads a variable that is a whole number within bounds.
func (r *reader) number(name string, otherwise, least, most int) int {
	return r.bounded(name, otherwise, least, most, fmt.Sprintf("must be a whole number from %d to %d", least, most))
}

// millis reads a variable that is a time in milliseconds.
func (r *reader) millis(name string, otherwise time.Duration) time.Duration {
	if r.vars[name] == "" {
		return otherwise
	}
	n := r.bounded(name, int(otherwise.Milliseconds()), 1, maxMillis, fmt.Sprintf("must be a number of milliseconds from 1 to %d, without a unit", maxMillis))
	return time.Duration(n) * time.Millisecond
}

func (r *reader) bounded(name string, otherwise, least, most int, rule string) int {
	text := r.vars[name]
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		r.report(name, fmt.Sprintf("%s, is %q", rule, text))
		return otherwise
	}
	return value
}

// maxHeaderFile bounds the file of headers.
const maxHeaderFile = 64 << 10

// endpoint reads where a signal goes: the variable of the signal is the whole URL, to any other the signal's path is
// appended.
func (r *reader) endpoint(signal Signal) string {
	if own := endpointVariable(signal); r.vars[own] != "" {
		return r.checkURL(own, r.vars[own])
	}
	const general = "OTEL_EXPORTER_OTLP_ENDPOINT"
	base := defaultEndpoint
	switch {
	case r.vars[general] != "":
		base = r.checkURL(general, r.vars[general])
	case r.cfg.GetEndpoint() != "":
		base = r.checkURL("telemetry.endpoint", r.cfg.GetEndpoint())
	}
	return strings.TrimSuffix(base, "/") + signal.path()
}

// checkURL reports a URL that cannot be an endpoint. It may have a password, which is not repeated.
func (r *reader) checkURL(at, text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		message := "must be an http or https URL, such as " + defaultEndpoint
		if !strings.Contains(text, "@") {
			message += fmt.Sprintf(", is %q", text)
		}
		r.report(at, message)
	case u.User != nil:
		r.report(at, "must not have a user or password: put credentials into OTEL_EXPORTER_OTLP_HEADERS or telemetry.headers_file")
	case u.RawQuery != "" || u.Fragment != "":
		r.report(at, "must not have a query or fragment")
	}
	return text
}

// headersOf reads the headers of a signal. Those of the variables replace the file's. Values are secrets: faults do not
// repeat them.
func (r *reader) headersOf(signal Signal) map[string]string {
	out := maps.Clone(r.headers)
	if out == nil {
		out = make(map[string]string)
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", ofSignal(signal, "HEADERS")} {
		r.pairs(variable, isHeader, func(name, value string) { out[name] = value })
	}
	return out
}

// pairs reads a variable of the form "name=value,name=value" with percent encoding.
func (r *reader) pairs(variable string, isValid func(name, value string) bool, add func(name, value string)) {
	for i, entry := range split(r.vars[variable]) {
		name, value, ok := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !isValid(name, decoded) {
			r.report(variable, fmt.Sprintf("entry %d must have the form name=value, with percent encoding of special characters", i+1))
			continue
		}
		add(name, decoded)
	}
}

func isHeader(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// fileHeaders reads the file of headers.
func (r *reader) fileHeaders() {
	path := r.cfg.GetHeadersFile()
	if path == "" {
		return
	}
	const at = "telemetry.headers_file"
	content, err := keys.ReadFile(path, maxHeaderFile)
	if err != nil {
		r.report(at, fileFault(err))
		return
	}
	r.headers = make(map[string]string)
	for i, line := range strings.Split(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !isHeader(name, value) {
			r.report(at, fmt.Sprintf("%s: line %d must have the form \"name: value\"", path, i+1))
			continue
		}
		r.headers[name] = value
	}
}

// tls reads the files of a signal's TLS settings, and reports those that cannot be used, at the first that is set.
func (r *reader) tls(signal Signal, endpoint string) *keys.ClientOptions {
	at := ""
	pick := func(what, path, otherwise string) string {
		name, value := r.either(signal, what)
		if value == "" {
			name, value = path, otherwise
		}
		if at == "" && value != "" {
			at = name
		}
		return value
	}
	files := keys.ClientOptions{
		CAFile:   pick("CERTIFICATE", "telemetry.ca_file", r.cfg.GetCaFile()),
		CertFile: pick("CLIENT_CERTIFICATE", "telemetry.cert_file", r.cfg.GetCertFile()),
		KeyFile:  pick("CLIENT_KEY", "telemetry.key_file", r.cfg.GetKeyFile()),
	}
	if at == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err == nil && u.Scheme == "http" {
		r.report(at, fmt.Sprintf("has no effect on %s: use an https endpoint", endpoint))
		return nil
	}
	if err == nil {
		files.ServerName = u.Hostname()
		_, err = keys.NewClient(files)
	}
	if err != nil {
		r.report(at, fileFault(err))
	}
	return &files
}

// split splits a list at commas; empty entries do not count.
func split(text string) []string {
	var out []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

// parentBased begins the names of samplers that follow the caller's decision.
const parentBased = "parentbased_"

// sampler reads which requests are traced.
func (r *reader) sampler() telemetry.Sampling {
	const name, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	ratio := r.cfg.GetSamplerRatio()
	if text := r.vars[argument]; text != "" {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value >= 0 && value <= 1) {
			r.report(argument, fmt.Sprintf("must be a number from 0 to 1, is %q", text))
		}
		ratio = value
	}
	said := strings.ToLower(r.vars[name])
	if said == "" {
		said = r.cfg.GetSampler()
	}
	root, isParentBased := strings.CutPrefix(said, parentBased)
	out := telemetry.Sampling{ParentBased: isParentBased}
	switch root {
	case "always_on":
		out.Ratio = 1
	case "always_off":
	case "traceidratio":
		out.Ratio = ratio
	default:
		r.report(name, fmt.Sprintf("unknown sampler %q: use always_on, always_off or traceidratio, or one of them with the prefix parentbased_", r.vars[name]))
	}
	return out
}

// propagator reads the formats of trace context.
func (r *reader) propagator() propagation.TextMapPropagator {
	const name = "OTEL_PROPAGATORS"
	names := split(r.vars[name])
	if len(names) == 0 {
		names = []string{"tracecontext", "baggage"}
	}
	p, err := autoprop.TextMapPropagator(slices.Compact(names)...)
	if err != nil {
		r.report(name, fmt.Sprintf("%v: use tracecontext, baggage, b3, b3multi, jaeger, xray, ottrace or none", err))
	}
	return p
}

// resource reads what describes the process. OTEL_SERVICE_NAME wins over OTEL_RESOURCE_ATTRIBUTES.
func (r *reader) resource() []attribute.KeyValue {
	var out []attribute.KeyValue
	r.pairs("OTEL_RESOURCE_ATTRIBUTES", func(name, _ string) bool { return name != "" }, func(name, value string) {
		out = append(out, attribute.String(name, value))
	})
	if service := r.vars["OTEL_SERVICE_NAME"]; service != "" {
		out = append(out, attribute.String("service.name", service))
	}
	return out
}
