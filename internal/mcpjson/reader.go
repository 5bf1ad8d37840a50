// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"github.com/outrigger-mcp/outrigger/internal/fieldrules"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxWordBytes bounds strings for which the contract has a pattern or a list alone.
const maxWordBytes = 256

// reader takes a value apart and keeps the first thing that is wrong with it. What
// it returns after that is of no use.
type reader struct {
	trail
	// late is the first fault among what is judged when the whole was read.
	late error
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

// member returns a member that has to be an object, and whether it is there.
func (r *reader) member(object []byte, name string) ([]byte, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if ok && !jsontext.IsObject(raw) {
		r.failIn(name, "Make it an object, not %s.", kindOf(raw))
		return nil, false
	}
	return raw, ok
}

// required is member for one that has to be there.
func (r *reader) required(object []byte, name string) []byte {
	raw, ok := r.member(object, name)
	if !ok {
		r.failIn(name, "MCP requires this object.")
	}
	return raw
}

// need returns a word that has to be there.
func (r *reader) need(object []byte, name string) string {
	raw, ok := jsontext.Lookup(object, name)
	r.enter(name)
	defer r.leave()
	if !ok {
		r.fail("MCP requires this string.")
		return ""
	}
	return r.text(&fieldrules.Rules{Required: true}, raw)
}

// text returns a value that has to be a string within its rules.
func (r *reader) text(rules *fieldrules.Rules, raw []byte) string {
	most := rules.MaxBytes
	if most == 0 {
		most = maxWordBytes
	}
	s, ok := jsontext.Text(raw)
	switch {
	case !ok:
		r.fail("Make it a string, not %s.", kindOf(raw))
	case s == "" && rules.Required:
		r.fail("Give it a value; it is empty.")
	case len(s) > most:
		r.fail("Make it at most %d bytes long.", most)
	}
	return s
}

// count returns how many elements an array has.
func (r *reader) count(raw []byte, most int) int {
	if raw[0] != '[' {
		r.fail("Make it an array, not %s.", kindOf(raw))
		return 0
	}
	n := 0
	for range jsontext.Elements(raw) {
		if n++; n > most {
			r.fail("Give at most %d of them.", most)
			return 0
		}
	}
	return n
}

// flag returns a value that has to be a boolean.
func (r *reader) flag(raw []byte) bool {
	if string(raw) != "true" && string(raw) != "false" {
		r.fail("Make it true or false, not %s.", kindOf(raw))
	}
	return string(raw) == "true"
}

// pairs returns a map of strings.
func (r *reader) pairs(rules *fieldrules.Rules, object []byte) map[string]string {
	out := make(map[string]string)
	for name, raw := range jsontext.Members(object) {
		if len(out) == rules.MaxItems {
			r.fail("Give at most %d of them.", rules.MaxItems)
			return nil
		}
		if name == "" || len(name) > rules.Keys.MaxBytes {
			r.fail("Make each name at least 1 and at most %d bytes long.", rules.Keys.MaxBytes)
			return nil
		}
		r.enter(name)
		out[name] = r.text(rules.Items, raw)
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
