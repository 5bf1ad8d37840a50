// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
)

const (
	// usualAttributes is how many attributes a record has room for without another allocation. A tool call has 15.
	usualAttributes = 20
	// What a record in the pool keeps at most: attributes, events and links, and bytes of its encoding.
	maxKeptAttributes = 4 * usualAttributes
	maxKeptLists      = 16
	maxKeptBytes      = 16 << 10
)

// record is a span while it is recorded. The lock of its node guards it.
type record struct {
	recorder *Recorder

	parent     Context
	kind       trace.SpanKind
	name       string
	start      time.Time
	attributes []Attribute
	events     []event
	links      []Context
	failed     bool
	message    string

	droppedAttributes, droppedEvents, droppedLinks int

	room [usualAttributes]Attribute
	wire []byte // of an earlier span
}

type event struct {
	name       string
	at         time.Time
	attributes []Attribute
	dropped    int
}

// records keeps records for the next spans. One that has been handed back has no node that knows it.
var records = sync.Pool{New: func() any {
	r := new(record)
	r.attributes = r.room[:0]
	return r
}}

func (of *Recorder) newRecord(parent Context, s *start) *record {
	r, _ := records.Get().(*record)
	r.recorder, r.parent, r.kind, r.name, r.start = of, parent, s.kind, s.name, s.at
	for _, l := range s.links {
		r.link(l)
	}
	return r
}

// export hands the span over, and the record back.
func (r *record) export(ids Context, end time.Time) {
	r.wire = r.append(r.wire[:0], ids, end)
	r.recorder.Export(r.wire)
	r.reset()
	records.Put(r)
}

// reset drops everything but memory for the next span.
func (r *record) reset() {
	attributes, events, links, wire := r.attributes, r.events, r.links, r.wire
	clear(attributes)
	clear(events)
	clear(links)
	if cap(attributes) > usualAttributes {
		clear(r.room[:]) // where they began
	}
	if cap(attributes) > maxKeptAttributes {
		attributes = r.room[:0]
	}
	if cap(wire) > maxKeptBytes {
		wire = nil
	}
	if cap(events) > maxKeptLists || cap(links) > maxKeptLists {
		events, links = nil, nil
	}
	r.recorder, r.parent, r.name, r.message = nil, Context{}, "", ""
	r.failed, r.droppedAttributes, r.droppedEvents, r.droppedLinks = false, 0, 0, 0
	r.attributes, r.events, r.links, r.wire = attributes[:0], events[:0], links[:0], wire
}

// set adds attributes. One with a name that is there replaces it.
func (r *record) set(attributes []Attribute) {
	for _, a := range attributes {
		if a.Valid() && a.Value.Type() == textType {
			if text := a.Value.AsString(); len(text) > r.recorder.Limits.Value {
				a = Text(string(a.Key), cut(text, r.recorder.Limits.Value))
			}
		}
		switch i := r.find(a); {
		case i >= 0:
			r.attributes[i] = a
		case !a.Valid(), len(r.attributes) >= r.recorder.Limits.Attributes:
			r.droppedAttributes++
		default:
			r.attributes = append(r.attributes, a)
		}
	}
}

// find returns where the attribute of the same name is; -1 for nowhere.
func (r *record) find(a Attribute) int {
	for i := range r.attributes {
		if r.attributes[i].Key == a.Key {
			return i
		}
	}
	return -1
}

func (r *record) link(of Context) {
	r.links = room(r.links, r.recorder.Limits.Links, &r.droppedLinks)
	if r.recorder.Limits.Links > 0 {
		r.links = append(r.links, of)
	}
}

func (r *record) event(name string, at time.Time, attributes []Attribute) {
	if at.IsZero() {
		at = time.Now()
	}
	most := min(len(attributes), r.recorder.Limits.EventAttributes)
	e := event{name: name, at: at, attributes: slices.Clone(attributes[:most]), dropped: len(attributes) - most}
	r.events = room(r.events, r.recorder.Limits.Events, &r.droppedEvents)
	if r.recorder.Limits.Events > 0 {
		r.events = append(r.events, e)
	}
}

// room drops the oldest of a full list, and counts it.
func room[T any](list []T, limit int, dropped *int) []T {
	if len(list) < limit {
		return list
	}
	*dropped++
	if limit == 0 {
		return list
	}
	copy(list, list[1:])
	return list[:len(list)-1]
}

// cut returns at most so many characters of a text, without what is no valid UTF-8.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	for i := range text {
		if most == 0 {
			return text[:i]
		}
		most--
	}
	return text
}

// valid is a text as Protobuf takes it.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
