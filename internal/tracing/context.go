// SPDX-License-Identifier: Apache-2.0

package tracing

import "go.opentelemetry.io/otel/trace"

// ContextSize is the size of a Context in bytes, see [AppendContext].
const ContextSize = 16 + 8 + 1

// AppendContext appends the ids and flags of a Context, as [ReadContext] reads them. The trace state is left out: it is for
// the next service, and this is for a link.
func AppendContext(dst []byte, c Context) []byte {
	traceID, spanID := c.TraceID(), c.SpanID()
	dst = append(append(dst, traceID[:]...), spanID[:]...)
	return append(dst, byte(c.TraceFlags()))
}

// ReadContext reads what [AppendContext] appended. The result is not valid, in the words of [Context.IsValid], where src is
// no Context.
func ReadContext(src []byte) Context {
	if len(src) != ContextSize {
		return Context{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(src[:16]), SpanID: trace.SpanID(src[16:24]), TraceFlags: trace.TraceFlags(src[24]), Remote: true,
	})
}
