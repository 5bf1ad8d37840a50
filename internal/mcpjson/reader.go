// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"encoding/json"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Bounds of what is read: those of the contract (proto/outrigger/v1), whose
// validation what was read has to pass.
const (
	maxWordBytes      = 256     // media types, names of software
	maxNameBytes      = 1024    // names of things, for programs and people, and tokens
	maxURIBytes       = 8192    // addresses
	maxSentencesBytes = 16384   // descriptions of software
	maxTextBytes      = 65536   // descriptions of things, half-typed values
	maxSettingsBytes  = 65536   // maps of capabilities
	maxIconBytes      = 262144  // addresses of pictures, which may hold the picture
	maxValueBytes     = 1 << 20 // _meta, forms, arguments of prompts
	maxPayloadBytes   = 64 << 20
	maxIcons          = 16
	maxPairs          = 256  // arguments of a prompt
	maxAnswers        = 64   // answers to the questions of one round
	maxItems          = 1024 // blocks, roots, watched resources and tasks
)

// reader takes a value apart and keeps the first thing that is wrong with it. What
// it returns after that is of no use.
type reader struct {
	trail
}

// whole returns an object that is the value itself.
func (r *reader) whole(raw []byte) []byte {
	raw = jsontext.Trim(raw)
	if !jsontext.IsObject(raw) {
		r.fail("Make it an object, not %s.", kindOf(raw))
		return nil
	}
	return raw
}

// object returns a member that has to be an object, and whether it is there.
func (r *reader) object(object []byte, name string) ([]byte, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if ok && !jsontext.IsObject(raw) {
		r.failIn(name, "Make it an object, not %s.", kindOf(raw))
		return nil, false
	}
	return raw, ok
}

// required is object for a member that has to be there.
func (r *reader) required(object []byte, name string) []byte {
	raw, ok := r.object(object, name)
	if !ok {
		r.failIn(name, "MCP requires this object.")
	}
	return raw
}

// elements returns the elements of a member that has to be an array, and whether it
// is there.
func (r *reader) elements(object []byte, name string, most int) ([]json.RawMessage, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if !ok {
		return nil, false
	}
	if raw[0] != '[' {
		r.failIn(name, "Make it an array, not %s.", kindOf(raw))
		return nil, false
	}
	var out []json.RawMessage
	for element := range jsontext.Elements(raw) {
		if len(out) == most {
			r.failIn(name, "Give at most %d of them.", most)
			return nil, false
		}
		out = append(out, element)
	}
	return out, true
}

// text returns a member that may be missing and is a string otherwise.
func (r *reader) text(object []byte, name string, most int) string {
	raw, ok := jsontext.Lookup(object, name)
	if !ok {
		return ""
	}
	r.enter(name)
	defer r.leave()
	return r.textIn(raw, 0, most)
}

// need returns a string that has to be there.
func (r *reader) need(object []byte, name string, least, most int) string {
	raw, ok := jsontext.Lookup(object, name)
	r.enter(name)
	defer r.leave()
	if !ok {
		r.fail("MCP requires this string.")
		return ""
	}
	return r.textIn(raw, least, most)
}

// textIn returns a value that has to be a string of so many bytes.
func (r *reader) textIn(raw []byte, least, most int) string {
	text, ok := jsontext.Text(raw)
	switch {
	case !ok:
		r.fail("Make it a string, not %s.", kindOf(raw))
	case len(text) < least:
		r.fail("Give it a value; it is empty.")
	case len(text) > most:
		r.fail("Make it at most %d bytes long.", most)
	}
	return text
}

// uri returns a string that has to be there and an absolute URI.
func (r *reader) uri(object []byte, name string, most int) string {
	uri := r.need(object, name, 1, most)
	if !isURI(uri) {
		r.failIn(name, "Make it an absolute URI (RFC 3986).")
	}
	return uri
}

// flag returns a member that may be missing and is a boolean otherwise.
func (r *reader) flag(object []byte, name string) bool {
	raw, ok := jsontext.Lookup(object, name)
	if ok && string(raw) != "true" && string(raw) != "false" {
		r.failIn(name, "Make it true or false, not %s.", kindOf(raw))
	}
	return string(raw) == "true"
}

// strings returns a map of strings.
func (r *reader) strings(object []byte, mostBytes int) map[string]string {
	out := make(map[string]string)
	for name, raw := range jsontext.Members(object) {
		if len(out) == maxPairs {
			r.fail("Give at most %d of them.", maxPairs)
			return nil
		}
		if name == "" || len(name) > maxNameBytes {
			r.fail("Make each name at least 1 and at most %d bytes long.", maxNameBytes)
			return nil
		}
		r.enter(name)
		out[name] = r.textIn(raw, 0, mostBytes)
		r.leave()
		if r.err != nil {
			return nil
		}
	}
	return out
}

// kindOf names the JSON type of a value for a person; it tells integers from other
// numbers.
func kindOf(raw []byte) string {
	if jsontext.IsInteger(raw) {
		return "an integer"
	}
	return jsontext.TypeName(raw)
}
