// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// parentBased begins the names of samplers that follow the caller's decision.
const parentBased = "parentbased_"

// sampler reads which requests are traced.
func (r *reader) sampler() tracing.Sampling {
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
	out := tracing.Sampling{ParentBased: isParentBased}
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
	const name = "OTEL_RESOURCE_ATTRIBUTES"
	var out []attribute.KeyValue
	for i, entry := range split(r.vars[name]) {
		key, value, ok := strings.Cut(entry, "=")
		key = strings.TrimSpace(key)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil {
			r.report(name, fmt.Sprintf("entry %d must have the form name=value, with percent encoding of special characters", i+1))
			continue
		}
		out = append(out, attribute.String(key, decoded))
	}
	if service := r.vars["OTEL_SERVICE_NAME"]; service != "" {
		out = append(out, attribute.String("service.name", service))
	}
	return out
}
