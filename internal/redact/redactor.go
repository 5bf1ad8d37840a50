// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxDepth bounds the recursion over what is recorded. The edges stop far below it.
const maxDepth = 10_000

// isJSON reports whether raw is one strict JSON value.
func isJSON(raw []byte) bool { return jsontext.Check(raw, maxDepth) == nil }

const (
	// redacted stands where a secret was.
	redacted = `"[redacted]"`
	// maxInnerTexts bounds JSON inside of JSON strings inside of JSON strings.
	// Escapes double with every layer, so nothing within a payload's bound
	// comes near it.
	maxInnerTexts = 16
)

// Redactor copies JSON without the values of secret members: those with a name of Base or
// Extra, in any object and in JSON inside of strings. Extra may be nil.
type Redactor struct {
	Base  Names
	Extra []Names
}

func (r Redactor) secret(name []byte) bool {
	if r.Base.has(name) {
		return true
	}
	for _, more := range r.Extra {
		if more.has(name) {
			return true
		}
	}
	return false
}

// AppendPayload appends raw, compact and redacted, or what says why it is left
// out. Nothing is null. What it appends is at most three times as long as raw:
// the shortest secret member, "a":1 and a comma, grows from 6 bytes to 17. size is the
// length of the payload, of which raw may lack what is above limit.
func (r Redactor) AppendPayload(dst, raw []byte, size, limit int) []byte {
	switch {
	case size == 0:
		return append(dst, "null"...)
	case size > limit:
		return appendOmitted(dst, size, "too large")
	case !isJSON(raw):
		return appendOmitted(dst, size, "not JSON")
	}
	dst, _ = r.append(dst, raw, 0)
	return dst
}

// appendOmitted appends the note that stands for a payload that is left out.
// Its one member has a name that no payload of a peer's own has by chance.
func appendOmitted(dst []byte, size int, why string) []byte {
	dst = append(dst, `{"dev.outrigger/omitted":{"bytes":`...)
	dst = strconv.AppendInt(dst, int64(size), 10)
	dst = append(dst, `,"reason":"`...)
	dst = append(dst, why...)
	return append(dst, `"}}`...)
}

// append copies one valid JSON text. In valid JSON a string is a name exactly
// where a colon follows, so no stack is needed. It reports whether it took
// anything away.
func (r Redactor) append(dst, raw []byte, layer int) (out []byte, changed bool) {
	for pos := 0; pos < len(raw); {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
			continue
		case '"':
		default:
			dst = append(dst, raw[pos])
			pos++
			continue
		}
		end := jsontext.SkipString(raw, pos)
		text := raw[pos:end]
		pos = jsontext.SkipSpace(raw, end)
		if pos == len(raw) || raw[pos] != ':' {
			var took bool
			dst, took = r.appendString(dst, text, layer)
			changed = changed || took
			continue
		}
		dst = append(append(dst, text...), ':')
		pos = jsontext.SkipSpace(raw, pos+1)
		if r.secret(decoded(text)) {
			dst = append(dst, redacted...)
			pos, changed = jsontext.SkipValue(raw, pos), true
		}
	}
	return dst, changed
}

// appendString copies a string value. Tools answer in JSON inside of text, and
// models send it so: what is JSON is redacted as such. A text that is not, but
// has a quoted secret name before a colon (a piece of JSON, several lines of it,
// a printed map), is not worth the risk.
func (r Redactor) appendString(dst, text []byte, layer int) (out []byte, changed bool) {
	inner := decoded(text)
	switch start := jsontext.SkipSpace(inner, 0); {
	case start == len(inner):
		return append(dst, text...), false
	case (inner[start] == '{' || inner[start] == '[' || inner[start] == '"') && isJSON(inner):
		if layer == maxInnerTexts {
			return append(dst, redacted...), true
		}
		clean, took := r.append(nil, inner, layer+1)
		if took {
			return jsontext.AppendText(dst, clean), true
		}
	case r.namesSecret(inner):
		return append(dst, redacted...), true
	}
	return append(dst, text...), false
}

const (
	// maxInnerName bounds the names that are looked for in a text.
	maxInnerName = 256
	// maxInnerEscapes bounds the layers of escapes in such a name.
	maxInnerEscapes = 4
)

// namesSecret reports whether a colon in the text follows a secret name in
// quotes, single ones and escaped ones too.
func (r Redactor) namesSecret(text []byte) bool {
	for from := 0; ; {
		colon := bytes.IndexByte(text[from:], ':')
		if colon < 0 {
			return false
		}
		colon += from
		from = colon + 1
		before := bytes.TrimRight(text[:colon], " \t\r\n")
		before = before[max(0, len(before)-maxInnerName):]
		if len(before) == 0 {
			continue
		}
		quote := before[len(before)-1]
		if quote != '"' && quote != '\'' {
			continue
		}
		before = bytes.TrimRight(before[:len(before)-1], `\`)
		name := before[bytes.LastIndexByte(before, quote)+1:]
		for range maxInnerEscapes {
			if bytes.IndexByte(name, '\\') < 0 {
				break
			}
			quoted, scratch := `"`+string(name)+`"`, []byte(nil)
			plain, end := jsontext.ReadString([]byte(quoted), 0, &scratch)
			if end != len(quoted) {
				break
			}
			name = plain
		}
		if r.secret(name) {
			return true
		}
	}
}

// decoded returns what a valid JSON string stands for.
func decoded(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	return jsontext.AppendDecoded(make([]byte, 0, len(text)), text)
}
