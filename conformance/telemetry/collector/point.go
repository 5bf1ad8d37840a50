// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Point is the state of one series of a metric.
type Point struct {
	Service, Name, Unit, Type string
	Attributes                map[string]string
	// Count is how many values a histogram has; Value is their sum, or the value of another metric.
	Count  uint64
	Value  float64
	Bounds []float64
	// Exemplars are the traces that values came from.
	Exemplars []Link
}

func (p *Point) series() string { return p.Service + "\n" + p.Name + "\n" + Labels(p.Attributes) }

// Labels writes attributes in the order of their names.
func Labels(attributes map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		out = append(out, fmt.Sprintf("%s=%q", name, attributes[name]))
	}
	return strings.Join(out, " ")
}

func pointsOf(md pmetric.Metrics) (out []Point) {
	for _, rm := range md.ResourceMetrics().All() {
		service := texts(rm.Resource().Attributes())["service.name"]
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				for _, p := range metricOf(m) {
					p.Service, p.Name, p.Unit, p.Type = service, m.Name(), m.Unit(), m.Type().String()
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func metricOf(m pmetric.Metric) (out []Point) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return numbers(m.Gauge().DataPoints())
	case pmetric.MetricTypeSum:
		return numbers(m.Sum().DataPoints())
	case pmetric.MetricTypeHistogram:
		for _, d := range m.Histogram().DataPoints().All() {
			p := Point{Attributes: texts(d.Attributes()), Count: d.Count(), Value: d.Sum(), Bounds: d.ExplicitBounds().AsRaw()}
			for _, e := range d.Exemplars().All() {
				p.Exemplars = append(p.Exemplars, Link{e.TraceID().String(), e.SpanID().String()})
			}
			out = append(out, p)
		}
	}
	return out
}

func numbers(points pmetric.NumberDataPointSlice) (out []Point) {
	for _, d := range points.All() {
		value := d.DoubleValue()
		if d.ValueType() == pmetric.NumberDataPointValueTypeInt {
			value = float64(d.IntValue())
		}
		out = append(out, Point{Attributes: texts(d.Attributes()), Value: value})
	}
	return out
}
