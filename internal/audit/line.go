// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Schema is the name of the schema of a line.
const Schema = "outrigger.audit.v1"

const (
	lineOpen = `{"schema":"` + Schema + `","time":"`
	// timeLayout has a fixed width, so that lines compare as text.
	timeLayout = "2006-01-02T15:04:05.000000Z"
	// maxText bounds each text of a line. A longer one is cut, and ends in an ellipsis.
	maxText = 1024
	// maxID bounds the id of a request, which is recorded whole or not at all.
	maxID = 4096
)

// encoder writes lines.
type encoder struct {
	ids      *ids
	payloads bool
	redactor redact.Redactor
	limit    int
}

func (e *encoder) head(dst []byte, now time.Time, id ID, phase Phase, who *Caller) []byte {
	dst = now.UTC().AppendFormat(append(dst, lineOpen...), timeLayout)
	dst = e.ids.append(append(dst, `","id":"`...), id)
	dst = append(append(append(dst, `","phase":"`...), phase...), '"')
	dst = member(dst, `,"caller":{"name":`, who.Name)
	dst = member(dst, `,"subject":`, who.Subject)
	dst = member(dst, `,"issuer":`, who.Issuer)
	dst = member(dst, `,"client_id":`, who.ClientID)
	dst = member(dst, `,"source":`, who.Source)
	dst = member(dst, `,"address":`, who.Address)
	return append(dst, '}')
}

// event writes a line about an invocation into dst. What is not known when it begins is null.
func (e *encoder) event(dst []byte, now time.Time, phase Phase, ev *Event) []byte {
	dst = e.head(dst, now, ev.ID, phase, &ev.Caller)
	dst = member(dst, `,"edge":`, ev.Edge)
	dst = member(dst, `,"route":`, ev.Route)
	dst = member(dst, `,"era":`, ev.Era)
	dst = member(dst, `,"operation":`, ev.Operation)
	dst = member(dst, `,"tool":`, ev.Tool)
	dst = member(dst, `,"target":`, ev.Target)
	dst = member(dst, `,"version":`, ev.Version)
	dst = member(dst, `,"fingerprint":`, ev.Fingerprint)
	dst = append(dst, `,"destructive":`...)
	if ev.Tool == "" {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendBool(dst, ev.Destructive)
	}
	dst = member(dst, `,"trust":`, ev.Trust)
	dst = member(dst, `,"decision":`, string(ev.Decision))
	dst = member(dst, `,"rule":`, ev.Rule)
	if phase == PhaseBegin {
		dst = append(dst, `,"code":null,"outcome":null,"cause":null,"duration_ms":null`...)
	} else {
		dst = member(dst, `,"code":`, ev.Code)
		dst = member(dst, `,"outcome":`, ev.Outcome)
		dst = member(dst, `,"cause":`, ev.Cause)
		dst = appendMillis(append(dst, `,"duration_ms":`...), ev.Duration)
	}
	dst = appendID(append(dst, `,"request_id":`...), ev.RequestID)
	dst = member(dst, `,"trace_id":`, ev.TraceID)
	dst = strconv.AppendInt(append(dst, `,"bytes_in":`...), int64(ev.BytesIn), 10)
	dst = append(dst, `,"bytes_out":`...)
	if phase == PhaseBegin {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(ev.BytesOut), 10)
	}
	if e.payloads {
		dst = e.payload(append(dst, `,"arguments":`...), ev.Arguments)
		dst = append(dst, `,"result":`...)
		if phase == PhaseBegin {
			dst = append(dst, "null"...)
		} else {
			dst = e.payload(dst, ev.Result)
		}
	}
	return jsontext.Visible(append(dst, "}\n"...), 0)
}

func (e *encoder) change(dst []byte, now time.Time, id ID, c *Change) []byte {
	dst = e.head(dst, now, id, PhaseChange, &c.Who)
	dst = member(dst, `,"operation":`, c.Kind)
	dst = member(dst, `,"tool":`, c.Tool)
	dst = member(dst, `,"before":`, c.Before)
	dst = member(dst, `,"after":`, c.After)
	code := c.Code
	if code == "" {
		code = "OK"
	}
	dst = member(dst, `,"code":`, code)
	dst = member(dst, `,"detail":`, c.Detail)
	return jsontext.Visible(append(dst, "}\n"...), 0)
}

func (e *encoder) payload(dst []byte, p Payload) []byte {
	size := p.Size
	if size == 0 {
		size = len(p.JSON)
	}
	return e.redactor.AppendMessage(dst, p.JSON, size, e.limit, p.Secret)
}

// member appends a name and its text, or null for an empty one.
func member(dst []byte, name, text string) []byte {
	dst = append(dst, name...)
	if text == "" {
		return append(dst, "null"...)
	}
	if len(text) > maxText {
		text = text[:maxText]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		text = text[:max(len(text)-1, 0)] + "…"
	}
	return jsontext.AppendString(dst, text)
}

// appendID appends an id as it came, or null for what is no string and no number.
func appendID(dst, id []byte) []byte {
	if len(id) == 0 || len(id) > maxID || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') || jsontext.Check(id, 1) != nil {
		return append(dst, "null"...)
	}
	return append(dst, jsontext.Trim(id)...)
}

// appendMillis appends a duration in milliseconds, with three digits behind the point.
func appendMillis(dst []byte, took time.Duration) []byte {
	us := max(took.Microseconds(), 0)
	dst = strconv.AppendInt(dst, us/1000, 10)
	us %= 1000
	return append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}
