// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Bounds of the words about arguments in a question.
const (
	maxWorded = 16
	maxWords  = 120
)

// Visible returns the JSON of a message without the fields that are to be hidden, at every depth.
func Visible(object []byte, md protoreflect.MessageDescriptor, hides func(protoreflect.FieldDescriptor) bool) []byte {
	return appendVisible(nil, object, md, hides)
}

func appendVisible(dst, object []byte, md protoreflect.MessageDescriptor, hides func(protoreflect.FieldDescriptor) bool) []byte {
	if md == nil || !jsontext.IsObject(object) {
		return append(dst, object...)
	}
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range jsontext.Members(object) {
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByName(protoreflect.Name(name))
		}
		if fd != nil && hides(fd) {
			continue
		}
		dst = append(jsontext.AppendString(comma(dst, start), name), ':')
		switch {
		case fd == nil || fd.Message() == nil:
			dst = append(dst, value...)
		case fd.IsMap():
			dst = appendEach(dst, value, fd.MapValue().Message(), hides)
		case fd.IsList():
			dst = appendEach(dst, value, fd.Message(), hides)
		default:
			dst = appendVisible(dst, value, fd.Message(), hides)
		}
	}
	return append(dst, '}')
}

// comma appends a comma where something is there since start.
func comma(dst []byte, start int) []byte {
	if len(dst) > start {
		return append(dst, ',')
	}
	return dst
}

// appendEach is appendVisible for each value of a map or of a list of messages.
func appendEach(dst, values []byte, md protoreflect.MessageDescriptor, hides func(protoreflect.FieldDescriptor) bool) []byte {
	switch {
	case jsontext.IsObject(values):
		dst = append(dst, '{')
		start := len(dst)
		for name, value := range jsontext.Members(values) {
			dst = append(jsontext.AppendString(comma(dst, start), name), ':')
			dst = appendVisible(dst, value, md, hides)
		}
		return append(dst, '}')
	case len(values) > 0 && values[0] == '[':
		dst = append(dst, '[')
		start := len(dst)
		for value := range jsontext.Elements(values) {
			dst = appendVisible(comma(dst, start), value, md, hides)
		}
		return append(dst, ']')
	}
	return append(dst, values...)
}

// Worded is what an input schema says of the arguments that are there: the title of each, else the first sentence of its description.
func Worded(input, arguments []byte) string {
	properties, _ := jsontext.Lookup(input, "properties")
	var out []string
	for name := range jsontext.Members(arguments) {
		property, ok := jsontext.Lookup(properties, name)
		if !ok || len(out) == maxWorded {
			continue
		}
		title, _ := jsontext.Lookup(property, "title")
		text, _ := jsontext.Text(title)
		if text == "" {
			described, _ := jsontext.Lookup(property, "description")
			text, _ = jsontext.Text(described)
			text, _, _ = strings.Cut(text, "\n")
			text, _, _ = strings.Cut(text, ". ")
		}
		if text = strings.TrimSuffix(strings.TrimSpace(text), "."); text != "" {
			out = append(out, name+": "+CutText(text, maxWords))
		}
	}
	return strings.Join(out, "; ")
}

// CutText cuts a text to a number of bytes, and marks that.
func CutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Without returns an object without members of some names.
func Without(object []byte, names ...string) []byte { return appendRest([]byte{'{'}, object, names) }

// WithText returns an object with a member that is a text, before all others. It takes the place of those with some names.
func WithText(object []byte, name, text string, names ...string) []byte {
	dst := append(jsontext.AppendString([]byte{'{'}, name), ':')
	return appendRest(jsontext.AppendString(dst, text), object, names)
}

// appendRest appends the members of an object, without some, and its end. dst has its beginning.
func appendRest(dst, object []byte, without []string) []byte {
	for name, value := range jsontext.Members(object) {
		isOut := false
		for _, n := range without {
			isOut = isOut || n == name
		}
		if !isOut {
			dst = append(append(jsontext.AppendString(comma(dst, 1), name), ':'), value...)
		}
	}
	return append(dst, '}')
}

// PreviewAdvice is the advice to a caller whose call is refused, and may be previewed.
const PreviewAdvice = "Do not call it again until an operator allows it. A preview changes nothing and may run: set " + previewKey + " to true in _meta."

// Omitted is a JSON object in the place of arguments that are not shown, and says why: "the arguments " with the reason behind it.
func Omitted(why string) []byte {
	return append(jsontext.AppendString([]byte(`{"dev.outrigger/omitted":`), "the arguments "+why), '}')
}
