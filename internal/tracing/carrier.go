// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// baggageKey is the name of baggage in every carrier.
const baggageKey = "baggage"

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
