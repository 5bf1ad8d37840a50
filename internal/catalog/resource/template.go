// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// template is a template of absolute URIs with simple expressions only: level 1 of RFC 6570. It is immutable.
//
// Going back from a URI to the values has to have one answer. So between two expressions there is a reserved character
// (RFC 3986, section 2.2), which no value can hold without being percent-encoded, and no value is empty. The reserved
// characters part a URI into segments, before anything is decoded.
type template struct {
	text     string
	segments []segment
	// between are the reserved characters between the segments.
	between string
	// variables are the names of the expressions, in their order.
	variables []string
	// literals is how many characters are given, which is how particular the template is.
	literals int
}

// segment is a run of characters that are not reserved: all given, or a value with something before and after it.
type segment struct{ prefix, variable, suffix string }

// reservedCharacters part segments. RFC 6570 admits all but the apostrophe in a template.
const reservedCharacters = ":/?#[]@!$&'()*+,;="

// isUnreserved reports whether RFC 3986 leaves the character as it is, and gives it no other meaning.
func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("-._~", c) >= 0
}

// parseTemplate reads a template. The error says what is wrong with it, and what would be right. That what it makes are
// URIs is for the rules of the contract to say.
func parseTemplate(text string) (*template, error) {
	if len(text) > limits().uri {
		return nil, fmt.Errorf("it has %d bytes; the limit is %d", len(text), limits().uri)
	}
	t := &template{text: text, segments: []segment{{}}}
	for rest := text; rest != ""; {
		n, err := t.parseNext(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	for _, s := range t.segments {
		t.literals += len(s.prefix) + len(s.suffix)
		for _, given := range [...]string{s.prefix, s.suffix} {
			if _, ok := percentDecoded(given); !ok {
				return nil, fmt.Errorf("%q is no percent-encoded UTF-8", given)
			}
		}
	}
	t.literals += len(t.between)
	if scheme, _, ok := strings.Cut(text, ":"); !ok || !isScheme(scheme) {
		return nil, errors.New(`it does not begin with a scheme, as "shop://orders" does`)
	}
	return t, nil
}

// isScheme reports whether the text is the scheme of a URI (RFC 3986, section 3.1).
func isScheme(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !isLetter(c) && (i == 0 || !isDigit(c) && strings.IndexByte("+-.", c) < 0) {
			return false
		}
	}
	return text != ""
}

// parseNext reads what the rest of a template begins with, and says how long that was.
func (t *template) parseNext(rest string) (int, error) {
	last := &t.segments[len(t.segments)-1]
	c := rest[0]
	switch {
	case c == '{':
		return t.expression(rest)
	case c == '%':
		if !isEscape(rest) {
			return 0, fmt.Errorf("%q is no percent-encoding", shown.Clip(rest[:min(len(rest), 3)]))
		}
		last.add(rest[:3])
		return 3, nil
	case isUnreserved(c):
		last.add(rest[:1])
		return 1, nil
	case c != '\'' && strings.IndexByte(reservedCharacters, c) >= 0:
		t.between += rest[:1]
		t.segments = append(t.segments, segment{})
		return 1, nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return 0, fmt.Errorf("%q has no place in a URI; percent-encode it", r)
}

// expression reads an expression.
func (t *template) expression(rest string) (int, error) {
	end := strings.IndexByte(rest, '}')
	if end < 0 {
		return 0, fmt.Errorf("%q does not end", shown.Clip(rest))
	}
	name := rest[1:end]
	last := &t.segments[len(t.segments)-1]
	switch {
	case !isFieldPath(name):
		return 0, fmt.Errorf("%q is no simple expression: wanted the path of a field, without operator, list or length", shown.Clip(rest[:end+1]))
	case last.variable != "":
		return 0, fmt.Errorf("nothing tells where {%s} ends and {%s} begins; put one of %s between them", last.variable, name, reservedCharacters)
	case slices.Contains(t.variables, name):
		return 0, fmt.Errorf("{%s} is there twice", name)
	}
	last.variable = name
	t.variables = append(t.variables, name)
	return end + 1, nil
}

// add appends what is given to the segment.
func (s *segment) add(text string) {
	if s.variable == "" {
		s.prefix += text
	} else {
		s.suffix += text
	}
}

// isFieldPath reports whether the text is identifiers joined by dots, which RFC 6570 takes as the name of a variable.
func isFieldPath(text string) bool {
	start := true
	for i := range len(text) {
		switch c := text[i]; {
		case isLetter(c), c == '_', !start && isDigit(c):
			start = false
		case !start && c == '.':
			start = true
		default:
			return false
		}
	}
	return !start
}

// sample is a URI that the template makes.
func (t *template) sample() string {
	values := map[string]string{}
	for _, v := range t.variables {
		values[v] = "1"
	}
	return t.expand(values)
}

// expand makes a URI of values (RFC 6570, section 3.2.2).
func (t *template) expand(values map[string]string) string {
	var out strings.Builder
	for i, s := range t.segments {
		out.WriteString(s.prefix)
		if s.variable != "" {
			out.WriteString(percentEncoded(values[s.variable]))
			out.WriteString(s.suffix)
		}
		if i < len(t.between) {
			out.WriteByte(t.between[i])
		}
	}
	return out.String()
}

// match finds the values of which the template makes the URI. The URI is taken apart before anything in it is decoded,
// so that what a value holds cannot lead anywhere else. Time is linear in the length of the URI.
func (t *template) match(uri string) (map[string]string, bool) {
	values := make(map[string]string, len(t.variables))
	for i, s := range t.segments {
		run := strings.IndexFunc(uri, func(r rune) bool { return r >= utf8.RuneSelf || !isUnreserved(byte(r)) && r != '%' })
		if run < 0 {
			run = len(uri)
		}
		value, ok := s.match(uri[:run])
		if !ok {
			return nil, false
		}
		if s.variable != "" {
			values[s.variable] = value
		}
		uri = uri[run:]
		if i == len(t.between) {
			break
		}
		if uri == "" || uri[0] != t.between[i] {
			return nil, false
		}
		uri = uri[1:]
	}
	return values, uri == ""
}

// match finds the value of a segment.
func (s *segment) match(run string) (string, bool) {
	if s.variable == "" {
		return "", run == s.prefix
	}
	if len(run) <= len(s.prefix)+len(s.suffix) || !strings.HasPrefix(run, s.prefix) || !strings.HasSuffix(run, s.suffix) {
		return "", false
	}
	return percentDecoded(run[len(s.prefix) : len(run)-len(s.suffix)])
}

// overlaps reports whether there is a URI that both templates match.
func (t *template) overlaps(other *template) bool {
	if t.between != other.between {
		return false
	}
	for i := range t.segments {
		if !t.segments[i].overlaps(&other.segments[i]) {
			return false
		}
	}
	return true
}

func (s *segment) overlaps(other *segment) bool {
	switch {
	case s.variable == "":
		_, ok := other.match(s.prefix)
		return ok
	case other.variable == "":
		_, ok := s.match(other.prefix)
		return ok
	}
	return (strings.HasPrefix(s.prefix, other.prefix) || strings.HasPrefix(other.prefix, s.prefix)) &&
		(endsIn(s.suffix, other.suffix) || endsIn(other.suffix, s.suffix))
}

// endsIn reports whether a text ends in another one that does not begin within a percent-encoding.
func endsIn(text, end string) bool {
	before, ok := strings.CutSuffix(text, end)
	return ok && (len(before) < 1 || before[len(before)-1] != '%') && (len(before) < 2 || before[len(before)-2] != '%')
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// isEscape reports whether the text begins with a percent-encoding.
func isEscape(text string) bool {
	return len(text) >= 3 && text[0] == '%' && jsontext.HexValue(text[1]) >= 0 && jsontext.HexValue(text[2]) >= 0
}

// percentDecoded is the text behind a percent-encoded one. False means that an encoding is broken, or that what comes
// out is no UTF-8.
func percentDecoded(text string) (string, bool) {
	out, err := url.PathUnescape(text)
	return out, err == nil && utf8.ValidString(out)
}

// percentEncoded is the text with all but unreserved characters percent-encoded.
func percentEncoded(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") // a plus of the text is %2B
}
