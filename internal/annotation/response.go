// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the responses in the operations of protoc-gen-openapiv2 and of gnostic.
const (
	openAPIResponses = 9
	gnosticResponses = 8
)

// responses are the examples that an operation has of its responses, by status.
type responses []response

type response struct {
	status   string
	examples []string
}

// texts are the examples of the successful responses, that of the lowest status first. What a service says of an error is no
// example of a result, and "default" usually is the error.
func (r responses) texts() []string {
	var out []string
	slices.SortStableFunc(r, func(a, b response) int { return cmp.Compare(a.status, b.status) })
	for _, one := range r {
		if len(one.status) == len("200") && one.status[0] == '2' {
			out = append(out, one.examples...)
		}
	}
	return out
}

// isJSON reports whether a media type is that of JSON.
func isJSON(mediaType string) bool {
	name, _, _ := strings.Cut(mediaType, ";")
	return strings.EqualFold(strings.TrimSpace(name), "application/json")
}

// pair is an entry of a map, or a named value of gnostic: both have the name in field 1 and the value in field 2.
func pair(body []byte) (name string, value []byte, ok bool) {
	ok = each(body, func(it item) {
		switch {
		case it.typ != protowire.BytesType:
		case it.number == 1:
			name = it.text()
		case it.number == 2:
			value = it.bytes
		}
	})
	return name, value, ok
}

// eachPart visits the fields of a message that hold bytes, and joins what visit returns with whether all can be read.
func eachPart(body []byte, visit func(item) bool) bool {
	ok := true
	isRead := each(body, func(it item) {
		if it.typ == protowire.BytesType {
			ok = visit(it) && ok
		}
	})
	return isRead && ok
}

// takeOpenAPI adds an entry of the responses of protoc-gen-openapiv2: the examples of the response, then those of its schema.
func (r *responses) takeOpenAPI(entry []byte) bool {
	status, body, ok := pair(entry)
	one := response{status: status}
	var schema keywords
	ok = eachPart(body, func(it item) bool {
		switch it.number {
		case 2:
			return schema.readOpenAPISchema(it.bytes)
		case 4: // by media type
			name, text, ok := pair(it.bytes)
			if isJSON(name) {
				one.examples = append(one.examples, strings.ToValidUTF8(string(text), "\uFFFD"))
			}
			return ok
		}
		return true
	}) && ok
	one.examples = append(one.examples, schema.examples...)
	*r = append(*r, one)
	return ok
}

// readOpenAPISchema adds what a Schema of protoc-gen-openapiv2 says.
func (k *keywords) readOpenAPISchema(body []byte) bool {
	return eachPart(body, func(it item) bool {
		switch it.number {
		case 1:
			return k.readOpenAPI(it.bytes)
		case 6:
			k.examples = append(k.examples, it.text())
		}
		return true
	})
}

// takeGnostic adds the responses of gnostic. from reads their examples one after another.
func (r *responses) takeGnostic(body []byte, from *keywords) bool {
	return eachPart(body, func(it item) bool {
		if it.number != 2 { // 1 is the default
			return true
		}
		status, either, ok := pair(it.bytes)
		from.examples = nil
		ok = eachPart(either, func(it item) bool {
			if it.number != 1 { // 2 is a reference to a response elsewhere
				return true
			}
			return eachPart(it.bytes, func(it item) bool {
				return it.number != 3 || from.takeContent(it.bytes)
			})
		}) && ok
		*r = append(*r, response{status: status, examples: from.examples})
		return ok
	})
}

// takeContent adds the examples of gnostic's MediaTypes.
func (k *keywords) takeContent(body []byte) bool {
	return eachPart(body, func(it item) bool {
		name, mediaType, ok := pair(it.bytes)
		if it.number != 1 || !isJSON(name) {
			return ok
		}
		return ok && eachPart(mediaType, func(it item) bool {
			switch it.number {
			case 1:
				return eachPart(it.bytes, func(it item) bool { return it.number != 1 || k.readGnostic(it.bytes) })
			case 2:
				return k.readAny(it.bytes, &k.examples)
			case 3:
				return k.takeNamedExamples(it.bytes)
			}
			return true
		})
	})
}

// takeNamedExamples adds the examples of gnostic's ExamplesOrReferences.
func (k *keywords) takeNamedExamples(body []byte) bool {
	return eachPart(body, func(it item) bool {
		_, either, ok := pair(it.bytes)
		return ok && eachPart(either, func(it item) bool {
			if it.number != 1 { // 2 is a reference
				return true
			}
			return eachPart(it.bytes, func(it item) bool { return it.number != 3 || k.readAny(it.bytes, &k.examples) })
		})
	})
}
