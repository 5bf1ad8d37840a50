// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// Asked is what a message with a fault asks for, as far as it can be read: of names that
// stand there twice the first, and of JSON that ends too early what comes before its end.
// It is for records of the refusal; nothing may be done by it.
type Asked struct {
	// Method is the method, and Name the tool, the prompt, the URI or the task that the
	// params name. Both are empty where they cannot be read.
	Method, Name string
	// IsUnknown: the message cannot be read at all, or is an array of messages. It may
	// have asked for anything.
	IsUnknown bool
}

// naming are the members of params that name what a request is about.
//
//nolint:gochecknoglobals // nothing assigns to it
var naming = [...]string{"name", "tool_name", "uri", "taskId"}

// asked reads what it can of a message with a fault.
func (e *Envelope) asked() Asked {
	if e.fault == nil {
		out := Asked{Method: e.Method(), IsUnknown: e.root == '['}
		for _, name := range naming {
			if raw, ok := e.Param(name); ok && out.Name == "" {
				out.Name, _ = jsontext.Text(raw)
			}
		}
		return out
	}
	r := asking{raw: e.unread, depth: -1}
	_ = jsontext.Walk(e.unread, e.limits.MaxDepth, &r) // it ends where the fault is, at the latest
	r.out.IsUnknown = r.out.Method == ""
	return r.out
}

// asking walks through JSON that has a fault, to find the request that it asks for.
type asking struct {
	raw []byte
	// depth is 0 in the outermost value. member is the name that was read last in the
	// innermost object, and outer that in the outermost.
	depth         int
	member, outer string
	out           Asked
}

// Value implements [jsontext.Visitor].
func (a *asking) Value(start int) bool {
	if start >= len(a.raw) {
		return false
	}
	if a.depth == 0 {
		a.outer = a.member
	}
	switch c := a.raw[start]; {
	case c == '{' || c == '[':
		a.depth++
		a.member = ""
	case c != '"':
	case a.depth == 0 && a.outer == "method" && a.out.Method == "":
		a.out.Method = a.text(start)
	case a.depth == 1 && a.outer == "params" && a.out.Name == "":
		for _, name := range naming {
			if a.member == name {
				a.out.Name = a.text(start)
			}
		}
	}
	return true
}

// text is the string that begins at start, "" for one without an end.
func (a *asking) text(start int) string {
	for end := start + 1; end < len(a.raw); end++ {
		switch a.raw[end] {
		case '\\':
			end++
		case '"':
			text, _ := jsontext.Text(a.raw[start : end+1])
			return text
		}
	}
	return ""
}

// Name implements [jsontext.Visitor].
func (a *asking) Name(_ int, name []byte, _ bool) bool {
	a.member = string(name)
	return true
}

// End implements [jsontext.Visitor].
func (a *asking) End(start, _ int) bool {
	if c := a.raw[start]; c == '{' || c == '[' {
		a.depth--
		a.member = ""
	}
	return true
}
