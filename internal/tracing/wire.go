// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of messages of opentelemetry.proto.trace.v1 and common.v1.
const (
	spanTraceID           protowire.Number = 1
	spanSpanID            protowire.Number = 2
	spanTraceState        protowire.Number = 3
	spanParentSpanID      protowire.Number = 4
	spanName              protowire.Number = 5
	spanKind              protowire.Number = 6
	spanStart             protowire.Number = 7
	spanEnd               protowire.Number = 8
	spanAttributes        protowire.Number = 9
	spanDroppedAttributes protowire.Number = 10
	spanEvents            protowire.Number = 11
	spanDroppedEvents     protowire.Number = 12
	spanLinks             protowire.Number = 13
	spanDroppedLinks      protowire.Number = 14
	spanStatus            protowire.Number = 15
	spanFlags             protowire.Number = 16

	eventTime              protowire.Number = 1
	eventName              protowire.Number = 2
	eventAttributes        protowire.Number = 3
	eventDroppedAttributes protowire.Number = 4

	linkTraceID protowire.Number = 1
	linkSpanID  protowire.Number = 2
	linkFlags   protowire.Number = 6

	statusMessage protowire.Number = 2
	statusCode    protowire.Number = 3

	attributeKey   protowire.Number = 1
	attributeValue protowire.Number = 2

	valueText   protowire.Number = 1
	valueBool   protowire.Number = 2
	valueInt    protowire.Number = 3
	valueDouble protowire.Number = 4
)

// Values of OTLP.
const (
	statusError = 2
	// flagHasRemote says that flagRemote is known; that says that the parent, or the end of a link, is in another process.
	flagHasRemote = 1 << 8
	flagRemote    = 1 << 9
)

// textType is the type of attributes that have texts.
const textType = attribute.STRING

// append appends the span as an OTLP Span.
func (r *record) append(dst []byte, ids Context, end time.Time) []byte {
	traceID, spanID := ids.TraceID(), ids.SpanID()
	dst = appendBytes(dst, spanTraceID, traceID[:])
	dst = appendBytes(dst, spanSpanID, spanID[:])
	dst = appendText(dst, spanTraceState, ids.TraceState().String())
	if parent := r.parent.SpanID(); parent.IsValid() {
		dst = appendBytes(dst, spanParentSpanID, parent[:])
	}
	dst = appendText(dst, spanName, r.name)
	dst = appendNumber(dst, spanKind, uint64(kindOf(r.kind)))
	dst = appendTime(dst, spanStart, r.start)
	dst = appendTime(dst, spanEnd, end)
	for i := range r.attributes {
		dst = appendAttribute(dst, spanAttributes, &r.attributes[i])
	}
	dst = appendNumber(dst, spanDroppedAttributes, uint64(r.droppedAttributes))
	for i := range r.events {
		dst = appendEvent(dst, &r.events[i])
	}
	dst = appendNumber(dst, spanDroppedEvents, uint64(r.droppedEvents))
	for i := range r.links {
		dst = appendLink(dst, r.links[i])
	}
	dst = appendNumber(dst, spanDroppedLinks, uint64(r.droppedLinks))
	dst = r.appendStatus(dst)
	return appendFlags(dst, spanFlags, ids.TraceFlags(), r.parent)
}

// kindOf is a kind in OTLP.
func kindOf(kind trace.SpanKind) int {
	switch kind {
	case trace.SpanKindServer:
		return 2
	case trace.SpanKindClient:
		return 3
	}
	return 1 // internal
}

func (r *record) appendStatus(dst []byte) []byte {
	dst = protowire.AppendTag(dst, spanStatus, protowire.BytesType)
	if !r.failed {
		return protowire.AppendVarint(dst, 0)
	}
	message := valid(r.message)
	size := protowire.SizeTag(statusCode) + protowire.SizeVarint(statusError)
	if message != "" {
		size += sizeOfText(statusMessage, message)
	}
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendText(dst, statusMessage, message)
	return appendNumber(dst, statusCode, statusError)
}

// The sizes of nested messages stand before them. Their texts are valid before they are measured.

func appendEvent(dst []byte, e *event) []byte {
	name := valid(e.name)
	size := protowire.SizeTag(eventTime) + protowire.SizeFixed64()
	if name != "" {
		size += sizeOfText(eventName, name)
	}
	for i := range e.attributes {
		size += protowire.SizeTag(eventAttributes) + protowire.SizeBytes(sizeOfAttribute(&e.attributes[i]))
	}
	if e.dropped > 0 {
		size += protowire.SizeTag(eventDroppedAttributes) + protowire.SizeVarint(uint64(e.dropped))
	}
	dst = protowire.AppendTag(dst, spanEvents, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendTime(dst, eventTime, e.at)
	dst = appendText(dst, eventName, name)
	for i := range e.attributes {
		dst = appendAttribute(dst, eventAttributes, &e.attributes[i])
	}
	return appendNumber(dst, eventDroppedAttributes, uint64(e.dropped))
}

func appendLink(dst []byte, of Context) []byte {
	traceID, spanID := of.TraceID(), of.SpanID()
	size := protowire.SizeTag(linkTraceID) + protowire.SizeBytes(len(traceID)) + protowire.SizeTag(linkSpanID) + protowire.SizeBytes(len(spanID)) +
		protowire.SizeTag(linkFlags) + protowire.SizeFixed32()
	dst = protowire.AppendTag(dst, spanLinks, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendBytes(dst, linkTraceID, traceID[:])
	dst = appendBytes(dst, linkSpanID, spanID[:])
	return appendFlags(dst, linkFlags, of.TraceFlags(), of)
}

// appendFlags appends the flags of a trace, and whether a span is in another process.
func appendFlags(dst []byte, field protowire.Number, flags trace.TraceFlags, span Context) []byte {
	value := uint32(flags) | flagHasRemote
	if span.IsRemote() {
		value |= flagRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(dst, field, protowire.Fixed32Type), value)
}

// appendAttribute appends a KeyValue.
func appendAttribute(dst []byte, field protowire.Number, a *Attribute) []byte {
	key, text := valid(string(a.Key)), textOf(a)
	value := sizeOfValue(a, text)
	size := sizeOfText(attributeKey, key) + protowire.SizeTag(attributeValue) + protowire.SizeBytes(value)
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = protowire.AppendTag(dst, attributeKey, protowire.BytesType)
	dst = protowire.AppendString(dst, key)
	dst = protowire.AppendTag(dst, attributeValue, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(value))
	switch a.Value.Type() {
	case attribute.INT64:
		dst = protowire.AppendTag(dst, valueInt, protowire.VarintType)
		return protowire.AppendVarint(dst, uint64(a.Value.AsInt64()))
	case attribute.BOOL:
		dst = protowire.AppendTag(dst, valueBool, protowire.VarintType)
		return protowire.AppendVarint(dst, protowire.EncodeBool(a.Value.AsBool()))
	case attribute.FLOAT64:
		dst = protowire.AppendTag(dst, valueDouble, protowire.Fixed64Type)
		return protowire.AppendFixed64(dst, math.Float64bits(a.Value.AsFloat64()))
	}
	dst = protowire.AppendTag(dst, valueText, protowire.BytesType)
	return protowire.AppendString(dst, text)
}

func sizeOfAttribute(a *Attribute) int {
	return sizeOfText(attributeKey, valid(string(a.Key))) + protowire.SizeTag(attributeValue) + protowire.SizeBytes(sizeOfValue(a, textOf(a)))
}

// sizeOfValue is the size of an AnyValue.
func sizeOfValue(a *Attribute, text string) int {
	switch a.Value.Type() {
	case attribute.INT64:
		return protowire.SizeTag(valueInt) + protowire.SizeVarint(uint64(a.Value.AsInt64()))
	case attribute.BOOL:
		return protowire.SizeTag(valueBool) + protowire.SizeVarint(1)
	case attribute.FLOAT64:
		return protowire.SizeTag(valueDouble) + protowire.SizeFixed64()
	}
	return sizeOfText(valueText, text)
}

// textOf is the text of an attribute. [Text] and [Int] make no others; lists become texts.
func textOf(a *Attribute) string {
	switch a.Value.Type() {
	case attribute.INT64, attribute.BOOL, attribute.FLOAT64:
		return ""
	case textType:
		return valid(a.Value.AsString())
	}
	return valid(a.Value.String())
}

func sizeOfText(field protowire.Number, text string) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(len(text))
}

// appendText appends a text that is not empty.
func appendText(dst []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), valid(text))
}

func appendBytes(dst []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), value)
}

// appendNumber appends a number that is not zero.
func appendNumber(dst []byte, field protowire.Number, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), value)
}

// appendTime appends Unix nanoseconds.
func appendTime(dst []byte, field protowire.Number, at time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), uint64(max(0, at.UnixNano())))
}
