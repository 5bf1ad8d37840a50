// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"encoding/hex"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// baggageKey is the name of baggage in every carrier.
const baggageKey = "baggage"

// traceparent is the header without which W3C Trace Context has no context.
const traceparent = "traceparent"

// withoutBaggage is a carrier that hides baggage, so that none of it is parsed: callers choose it.
type withoutBaggage struct{ of Carrier }

// Get implements [Carrier].
func (c withoutBaggage) Get(key string) string {
	if strings.EqualFold(key, baggageKey) {
		return ""
	}
	return c.of.Get(key)
}

// Set implements [Carrier].
func (c withoutBaggage) Set(key, value string) { c.of.Set(key, value) }

// Keys implements [Carrier].
func (c withoutBaggage) Keys() []string { return c.of.Keys() }

// headersOf returns the headers of trace context that a propagator writes, in canonical form.
func headersOf(p propagation.TextMapPropagator) []string {
	var out []string
	for _, name := range p.Fields() {
		if !strings.EqualFold(name, baggageKey) {
			out = append(out, http.CanonicalHeaderKey(name))
		}
	}
	return out
}

// isW3C holds for the headers of W3C Trace Context. Propagators of other formats write, and perhaps read, others too.
func isW3C(fields []string) bool {
	for _, name := range fields {
		if name != "Traceparent" && name != "Tracestate" {
			return false
		}
	}
	return len(fields) > 0
}

// inject writes the context of a span into headers that have none. W3C's needs no context of the library.
func (t *Tracer) inject(n *node, h http.Header) {
	switch {
	case n.of != nil:
		t.opts.Propagator.Inject(n.within, propagation.HeaderCarrier(h))
	case !t.isW3C:
		t.opts.Propagator.Inject(trace.ContextWithSpanContext(n.within, n.ids), propagation.HeaderCarrier(h))
	default:
		h["Traceparent"] = []string{parentHeader(n.ids)}
		if state := n.ids.TraceState(); state.Len() > 0 {
			h["Tracestate"] = []string{state.String()}
		}
	}
}

// parentHeader is a context as the value of traceparent, version 00.
func parentHeader(of Context) string {
	traceID, spanID := of.TraceID(), of.SpanID()
	flags := [1]byte{byte(of.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))}
	var out [len("00-") + 32 + len("-") + 16 + len("-") + 2]byte
	dst := append(out[:0], "00-"...)
	dst = append(hex.AppendEncode(dst, traceID[:]), '-')
	dst = append(hex.AppendEncode(dst, spanID[:]), '-')
	return string(hex.AppendEncode(dst, flags[:]))
}
