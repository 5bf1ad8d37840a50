// SPDX-License-Identifier: Apache-2.0

// Package vocabulary knows the metrics, labels and label values that a sidecar exposes, and finds queries that use others.
//
// Prometheus answers a name, a label or a value that does not exist with nothing at all, so that only a check finds it. A
// vocabulary is built first and then only read.
package vocabulary

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Labels are names of labels.
type Labels map[string]bool

// Vocabulary is what may be named in a query.
type Vocabulary struct {
	// metrics are exposed, without the labels that Prometheus adds; defined are made by recording rules, with all labels.
	metrics, defined map[string]Labels
	// values are the values of each metric's labels that were seen.
	values map[string]map[string]bool
	// closed are the labels with a fixed set of values, whether seen or not. A label with an empty set has any value.
	closed map[string][]string
	// added are the labels that Prometheus adds to every series.
	added []string
}

// New returns the vocabulary of Prometheus itself. closed has the labels with a fixed set of values; an
// empty set means that any value is possible.
func New(closed map[string][]string) *Vocabulary {
	v := &Vocabulary{
		metrics: map[string]Labels{}, defined: map[string]Labels{}, values: map[string]map[string]bool{}, closed: closed, added: []string{"job", "instance"},
	}
	v.metrics["ALERTS"] = Labels{"alertname": true, "alertstate": true, "severity": true}
	v.metrics["up"] = Labels{}
	v.values[key("ALERTS", "alertstate")] = map[string]bool{"firing": true, "pending": true}
	return v
}

// Read adds a page of metrics in Prometheus' text format.
func (v *Vocabulary) Read(page io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return fmt.Errorf("read a page of metrics: %w", err)
	}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			v.see(name, f.GetType(), m.GetLabel())
		}
	}
	return nil
}

// see adds one series.
func (v *Vocabulary) see(name string, kind dto.MetricType, labels []*dto.LabelPair) {
	names := []string{name}
	if kind == dto.MetricType_HISTOGRAM {
		names = []string{name + "_bucket", name + "_sum", name + "_count"}
	}
	for _, n := range names {
		known := v.metrics[n]
		if known == nil {
			known = Labels{}
			v.metrics[n] = known
		}
		if strings.HasSuffix(n, "_bucket") && kind == dto.MetricType_HISTOGRAM {
			known["le"] = true
		}
		for _, l := range labels {
			known[l.GetName()] = true
			if v.values[key(n, l.GetName())] == nil {
				v.values[key(n, l.GetName())] = map[string]bool{}
			}
			v.values[key(n, l.GetName())][l.GetValue()] = true
		}
	}
}

// Define adds a metric that a recording rule makes, with the labels of its expression.
func (v *Vocabulary) Define(name string, labels Labels) { v.defined[name] = maps.Clone(labels) }

// Has reports whether there is a metric.
func (v *Vocabulary) Has(name string) bool { return v.metrics[name] != nil || v.defined[name] != nil }

// Names are the metrics, sorted.
func (v *Vocabulary) Names() []string { return slices.Sorted(maps.Keys(v.metrics)) }

// of are the labels of a series of the metric as Prometheus stores it.
func (v *Vocabulary) of(name string) (Labels, error) {
	if made, ok := v.defined[name]; ok {
		return maps.Clone(made), nil
	}
	known, ok := v.metrics[name]
	if !ok {
		return nil, fmt.Errorf("%s: there is no such metric", name)
	}
	out := maps.Clone(known)
	for _, l := range v.added {
		out[l] = true
	}
	return out, nil
}

// isValue reports whether a label of a metric can have a value. Labels without a fixed set of values have those that were
// seen; a metric that a rule defines has any.
func (v *Vocabulary) isValue(name, label, value string) bool {
	if fixed, ok := v.closed[label]; ok {
		return len(fixed) == 0 || slices.Contains(fixed, value)
	}
	seen, ok := v.values[key(name, label)]
	return !ok || seen[value]
}

func key(metric, label string) string { return metric + "\x00" + label }
