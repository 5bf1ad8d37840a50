// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// SchemaVersion is the version of the line format (metadata.schemaVersion). Its schema
// is testdata/schemas/record/event.schema.json.
const SchemaVersion = "1.1.0"

const (
	timestampOpen = `{"timestamp":"`
	// secondLayout and six digits of microseconds make a timestamp of fixed
	// width, so that lines compare as text.
	secondLayout   = "2006-01-02T15:04:05"
	timestampBytes = len("2006-01-02T15:04:05.000000Z")
	noTimestamp    = "0000-00-00T00:00:00.000000Z"

	// maxErrorBytes is above the most that the canonical table lets through:
	// a hundred violations of 3 KiB, and details.
	maxErrorBytes = 512 << 10
)

// appendHead appends what is known of an envelope when it arrives. The time and,
// where the caller sent none, the trace id are left as zeros to be put in place
// later; traceAt is where, or 0.
func appendHead(dst []byte, a *Arrival) (head []byte, traceAt int) {
	dst = append(dst, timestampOpen+noTimestamp+`","requestId":`...)
	dst = appendID(dst, a.RequestID)
	dst = append(dst, `,"traceId":"`...)
	if isTraceID(a.TraceID) {
		dst = append(dst, a.TraceID...)
	} else {
		traceAt = len(dst)
		dst = append(dst, noTraceID...)
	}
	dst = append(dst, `","transport":`...)
	dst = appendText(dst, a.Transport)
	dst = append(dst, `,"route":`...)
	dst = appendText(dst, a.Route)
	dst = append(dst, `,"method":`...)
	return appendText(dst, a.Method), traceAt
}

// appendTail appends the outcome, without payloads and metadata.
func appendTail(dst []byte, o *Outcome, took time.Duration) []byte {
	status := `,"status":"error","durationMs":`
	if o.OK {
		status = `,"status":"ok","durationMs":`
	}
	dst = append(dst, status...)
	dst = appendMillis(dst, took)
	dst = append(dst, `,"error":`...)
	if o.OK {
		return append(dst, "null"...)
	}
	return appendError(dst, o)
}

// appendWho appends the tool and the caller.
func appendWho(dst []byte, tool, caller string) []byte {
	dst = appendText(append(dst, `,"tool":`...), tool)
	return appendText(append(dst, `,"caller":`...), caller)
}

// appendMillis appends a duration in milliseconds, with three digits behind the
// point.
func appendMillis(dst []byte, took time.Duration) []byte {
	us := max(took.Microseconds(), 0)
	dst = strconv.AppendInt(dst, us/1000, 10)
	us %= 1000
	return append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}

// appendError appends the canonical data object with two members more. What is
// no JSON object is null.
func appendError(dst []byte, o *Outcome) []byte {
	data := bytes.TrimSpace(o.Error)
	if len(data) < 2 || len(data) > maxErrorBytes || data[0] != '{' || !isJSON(data) {
		return append(dst, "null"...)
	}
	// A raw line break can only stand between tokens.
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		var compact bytes.Buffer
		if json.Compact(&compact, data) != nil {
			return append(dst, "null"...)
		}
		data = compact.Bytes()
	}
	open := bytes.TrimRight(data[:len(data)-1], " \t")
	dst = append(dst, open...)
	if len(open) > 1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"httpStatus":`...)
	dst = appendNumber(dst, o.HTTPStatus)
	dst = append(dst, `,"jsonrpcCode":`...)
	dst = appendNumber(dst, o.Code)
	return append(dst, '}')
}

// appendNumber appends a status or code; neither is ever 0, so 0 is unknown.
func appendNumber(dst []byte, n int) []byte {
	if n == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendMetadata appends what ends every line of a run, line feed included.
func appendMetadata(dst []byte, deterministic bool) []byte {
	dst = append(dst, `,"metadata":{"schemaVersion":"`+SchemaVersion+`","deterministic":`...)
	dst = strconv.AppendBool(dst, deterministic)
	return append(dst, "}}\n"...)
}

// clock writes timestamps; it remembers the last second that it formatted. It
// is not safe for concurrent use.
type clock struct {
	second int64
	text   [len(secondLayout)]byte
	known  bool
}

// put writes now into dst, which has timestampBytes bytes.
func (c *clock) put(dst []byte, now time.Time) {
	if s := now.Unix(); s != c.second || !c.known {
		utc := now.UTC()
		if y := utc.Year(); y < 0 || y > 9999 { // RFC 3339 has four digits
			utc = time.Unix(0, 0).UTC()
		}
		utc.AppendFormat(c.text[:0], secondLayout)
		c.second, c.known = s, true
	}
	at := copy(dst, c.text[:])
	dst[at] = '.'
	us := now.Nanosecond() / 1000
	for i := at + 6; i > at; i-- {
		dst[i] = byte('0' + us%10)
		us /= 10
	}
	dst[at+7] = 'Z'
}
