// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// keywords are what the two OpenAPI annotations say of a value, as far as it is used. A nil bound is unset.
type keywords struct {
	title, description, format, pattern string
	defaultValue                        string // JSON
	examples, enum                      []string
	required                            []string
	readOnly, unique                    bool
	multipleOf                          *float64
	minimum, maximum                    *float64
	openMinimum, openMaximum            bool // the bound itself is refused
	minLength, maxLength                *uint64
	minItems, maxItems                  *uint64
	minProperties, maxProperties        *uint64

	// of is the message that is described, which examples may hold; nil for other values.
	of protoreflect.MessageDescriptor
	// unknown are the types of examples that cannot be read.
	unknown []string
}

// fields are the keywords that a field of an annotation says, by its number in protoc-gen-openapiv2's JSONSchema and in
// gnostic's Schema; 0 for one that is not there, or has another type.
func (k *keywords) fields() []keyword {
	return []keyword{
		{5, 9, &k.title}, {6, 34, &k.description}, {7, 0, &k.defaultValue}, {8, 3, &k.readOnly}, {9, 0, &k.examples}, {10, 10, &k.multipleOf},
		{11, 11, &k.maximum}, {12, 12, &k.openMaximum}, {13, 13, &k.minimum}, {14, 14, &k.openMinimum},
		{15, 15, &k.maxLength}, {16, 16, &k.minLength}, {17, 17, &k.pattern}, {20, 18, &k.maxItems}, {21, 19, &k.minItems}, {22, 20, &k.unique},
		{24, 21, &k.maxProperties}, {25, 22, &k.minProperties}, {26, 23, &k.required}, {36, 35, &k.format}, {46, 0, &k.enum},
	}
}

type keyword struct {
	openAPI, gnostic protowire.Number
	to               any // see item.store
}

// Field numbers of gnostic.openapi.v3.Schema whose types differ from those of JSONSchema.
const (
	gnosticExample = 7  // Any
	gnosticEnum    = 24 // repeated Any
	gnosticDefault = 33 // DefaultType
)

// readOpenAPI adds what a JSONSchema says.
func (k *keywords) readOpenAPI(body []byte) bool {
	to := fields{}
	for _, f := range k.fields() {
		to[f.openAPI] = f.to
	}
	return to.read(body)
}

// readGnostic adds what a gnostic Schema says.
func (k *keywords) readGnostic(body []byte) bool {
	ok, to := true, fields{}
	for _, f := range k.fields() {
		to[f.gnostic] = f.to
	}
	isRead := each(body, func(it item) {
		switch it.number {
		case gnosticExample:
			ok = k.readAny(it.bytes, &k.examples) && ok
		case gnosticEnum:
			ok = k.readAny(it.bytes, &k.enum) && ok
		case gnosticDefault:
			ok = each(it.bytes, k.takeDefault) && ok
		default:
			it.store(to[it.number])
		}
	})
	return isRead && ok
}

func (k *keywords) takeDefault(it item) {
	switch {
	case it.number == 1 && it.typ == protowire.Fixed64Type:
		if raw, err := json.Marshal(it.double()); err == nil {
			k.defaultValue = string(raw)
		}
	case it.number == 2 && it.typ == protowire.VarintType:
		k.defaultValue = strconv.FormatBool(it.bits != 0)
	case it.number == 3 && it.typ == protowire.BytesType:
		raw, _ := json.Marshal(it.text()) //nolint:errchkjson // a string
		k.defaultValue = string(raw)
	}
}

// Field numbers of protovalidate's FieldRules that protoc-gen-validate does not have.
const (
	rulesRequired = 25
	rulesIgnore   = 27
)

// Field numbers of the types of rules, which are the same in both. pgvMessage is protoc-gen-validate's alone.
const (
	rulesString   = 14
	rulesBytes    = 15
	rulesEnum     = 16
	pgvMessage    = 17
	rulesRepeated = 18
	rulesMap      = 19
	rulesAny      = 20
	rulesDuration = 21
	rulesTime     = 22
	lastNumber    = 12 // float to sfixed64
)

// Field numbers within them.
const (
	messageRequired = 2 // of MessageRules
	wktRequired     = 1 // of the rules of Any, Duration and Timestamp
	repeatedItems   = 4
	mapNoSparse     = 3
	mapKeys         = 4
	mapValues       = 5
)

// maxRulesDepth bounds rules of items within rules of items. Protobuf has no lists of lists, so one level is all there is.
const maxRulesDepth = 4

// ignoreEmptyOf is the number of ignore_empty in a type of rules; 0 for types without it.
func ignoreEmptyOf(kind protowire.Number) protowire.Number {
	switch {
	case kind >= 1 && kind <= lastNumber:
		return 8
	case kind == rulesString:
		return 26
	case kind == rulesBytes:
		return 14
	case kind == rulesRepeated:
		return 5
	case kind == rulesMap:
		return 6
	}
	return 0
}

// translate turns the bytes of protoc-gen-validate's FieldRules into those of protovalidate's, which kept the numbers and
// types of the former: only ignore_empty, required and message move.
func translate(body []byte, depth int) ([]byte, bool) {
	if depth > maxRulesDepth {
		return nil, false
	}
	var out []byte
	ok, isRequired, ignoresZero := true, false, false
	isRead := each(body, func(it item) {
		switch {
		case it.typ != protowire.BytesType:
		case it.number == pgvMessage:
			ok = each(it.bytes, func(rule item) { isRequired = isRequired || rule.number == messageRequired && rule.isSet() }) && ok
		default:
			var inner []byte
			isInner := each(it.bytes, func(rule item) {
				switch {
				case rule.number == ignoreEmptyOf(it.number) && rule.number != 0:
					ignoresZero = ignoresZero || rule.isSet()
				case it.number >= rulesAny && it.number <= rulesTime && rule.number == wktRequired:
					isRequired = isRequired || rule.isSet()
				case it.number == rulesMap && rule.number == mapNoSparse:
				case it.number == rulesRepeated && rule.number == repeatedItems, it.number == rulesMap && (rule.number == mapKeys || rule.number == mapValues):
					nested, isNested := translate(rule.bytes, depth+1)
					ok = ok && isNested
					inner = protowire.AppendBytes(protowire.AppendTag(inner, rule.number, protowire.BytesType), nested)
				default:
					inner = append(inner, rule.raw...)
				}
			})
			ok = ok && isInner
			out = protowire.AppendBytes(protowire.AppendTag(out, it.number, protowire.BytesType), inner)
		}
	})
	if isRequired {
		out = protowire.AppendVarint(protowire.AppendTag(out, rulesRequired, protowire.VarintType), 1)
	}
	if ignoresZero {
		out = protowire.AppendVarint(protowire.AppendTag(out, rulesIgnore, protowire.VarintType), uint64(validate.Ignore_IGNORE_IF_ZERO_VALUE))
	}
	return out, isRead && ok
}

// readPGV reads the rules of protoc-gen-validate. Nil rules say nothing.
func readPGV(body []byte) (*validate.FieldRules, bool) {
	raw, ok := translate(body, 0)
	if !ok {
		return nil, false
	}
	rules := &validate.FieldRules{}
	if (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(raw, rules) != nil {
		return nil, false
	}
	if _, err := protojson.Marshal(rules); err != nil { // texts that are not UTF-8, which proto2 admits
		return nil, false
	}
	if proto.Size(rules) == 0 {
		return nil, true
	}
	return rules, true
}

// isUnchecked reports whether protoc-gen-validate makes no checks for a message.
func isUnchecked(md protoreflect.MessageDescriptor) bool {
	out := false
	eachAnnotation(md, func(it item) {
		if it.number == pgvNumber || it.number == pgvIgnored {
			out = out || it.isSet()
		}
	})
	return out
}

// isOneofRequiredByAnnotation reports whether protoc-gen-validate's validate.required asks for one of the fields.
func isOneofRequiredByAnnotation(od protoreflect.OneofDescriptor) bool {
	out := false
	eachAnnotation(od, func(it item) { out = it.number == pgvNumber && it.isSet() || out })
	return out
}

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
	ok = fields{1: &name, 2: &value}.read(body)
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

// eachWithin visits the messages to which a path of field numbers leads. It reports whether all can be read.
func eachWithin(body []byte, visit func([]byte) bool, path ...protowire.Number) bool {
	if len(path) == 0 {
		return visit(body)
	}
	return eachPart(body, func(it item) bool { return it.number != path[0] || eachWithin(it.bytes, visit, path[1:]...) })
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

// takeGnostic adds the responses of gnostic. from reads their examples one after another. What is not on the paths is the
// default, or a reference to a response or an example elsewhere.
func (r *responses) takeGnostic(body []byte, from *keywords) bool {
	return eachWithin(body, func(entry []byte) bool {
		status, either, ok := pair(entry)
		from.examples = nil
		ok = eachWithin(either, from.takeContent, 1, 3) && ok
		*r = append(*r, response{status: status, examples: from.examples})
		return ok
	}, 2)
}

// takeContent adds the examples of gnostic's MediaTypes.
func (k *keywords) takeContent(body []byte) bool {
	readExample := func(body []byte) bool { return k.readAny(body, &k.examples) }
	return eachWithin(body, func(entry []byte) bool {
		name, mediaType, ok := pair(entry)
		if !ok || !isJSON(name) {
			return ok
		}
		return eachPart(mediaType, func(it item) bool {
			switch it.number {
			case 1:
				return eachWithin(it.bytes, k.readGnostic, 1)
			case 2:
				return readExample(it.bytes)
			case 3: // by name
				return eachWithin(it.bytes, readExample, 1, 2, 1, 3)
			}
			return true
		})
	}, 1)
}

// Bounds of a value in an annotation. No use of it shows more than 1 KiB.
const (
	maxValueBytes = 4 << 10
	maxValueDepth = 16
)

// readAny adds the value of a gnostic Any: text in YAML, or a message.
func (k *keywords) readAny(body []byte, to *[]string) bool {
	return eachPart(body, func(it item) bool {
		switch it.number {
		case 1:
			url, value, ok := pair(it.bytes)
			if text, isKnown := k.messageText(url, value); isKnown {
				*to = append(*to, text)
			} else if ok {
				k.unknown = append(k.unknown, url)
			}
			return ok
		case 2:
			*to = append(*to, jsonOfYAML(strings.TrimSpace(it.text())))
		}
		return true
	})
}

// messageText is the JSON of a message in an Any: one of the message that the annotation is about, or of Protobuf's own types,
// such as google.protobuf.Value. Others are not known, since options name their types without bringing them along.
func (k *keywords) messageText(url string, value []byte) (string, bool) {
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	m := wellKnown(name)
	if k.of != nil && name == k.of.FullName() {
		m = dynamicpb.NewMessage(k.of)
	}
	if m == nil || len(value) > maxValueBytes {
		return "", false
	}
	if (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(value, m) != nil {
		return "", false
	}
	raw, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(m)
	return string(jsontext.Compact(nil, raw)), err == nil // protojson adds spaces at random
}

// wellKnown is an empty message of Protobuf's own types that hold a value; nil for others.
func wellKnown(name protoreflect.FullName) proto.Message {
	for _, m := range [...]proto.Message{
		&structpb.Value{}, &structpb.Struct{}, &structpb.ListValue{}, &timestamppb.Timestamp{}, &durationpb.Duration{},
		&wrapperspb.StringValue{}, &wrapperspb.BytesValue{}, &wrapperspb.BoolValue{}, &wrapperspb.DoubleValue{}, &wrapperspb.FloatValue{},
		&wrapperspb.Int32Value{}, &wrapperspb.Int64Value{}, &wrapperspb.UInt32Value{}, &wrapperspb.UInt64Value{},
	} {
		if m.ProtoReflect().Descriptor().FullName() == name {
			return m
		}
	}
	return nil
}

// jsonOfYAML is a YAML value as JSON. A scalar without quotes stays as it is, because only the field that it is for tells a
// text from a number. So does JSON, and what is no YAML, has an alias or is too large: it is shown as the author wrote it.
func jsonOfYAML(text string) string {
	if len(text) > maxValueBytes || json.Valid([]byte(text)) {
		return text
	}
	var document yaml.Node
	if yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) != 1 {
		return text
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return text
	}
	if raw, ok := appendYAML(nil, top, 0); ok && len(raw) <= maxValueBytes {
		return string(raw)
	}
	return text
}

// appendYAML appends a value as JSON. It refuses what JSON cannot say.
func appendYAML(dst []byte, n *yaml.Node, depth int) ([]byte, bool) {
	if depth > maxValueDepth {
		return nil, false
	}
	ok := true
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content) && ok; i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode {
				return nil, false
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, n.Content[i].Value), ':')
			dst, ok = appendYAML(dst, n.Content[i+1], depth+1)
		}
		return append(dst, '}'), ok
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i := 0; i < len(n.Content) && ok; i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, ok = appendYAML(dst, n.Content[i], depth+1)
		}
		return append(dst, ']'), ok
	case yaml.ScalarNode:
		return appendScalar(dst, n), true
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return nil, false
}

// appendScalar appends a scalar. What YAML takes for a number and JSON cannot write, such as .inf, is a text.
func appendScalar(dst []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(dst, "null"...)
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			return strconv.AppendBool(dst, v)
		}
	case "!!int":
		if json.Valid([]byte(n.Value)) { // 64 bits may be more than a float64 holds
			return append(dst, n.Value...)
		}
		var v int64
		if n.Decode(&v) == nil {
			return strconv.AppendInt(dst, v, 10)
		}
	case "!!float":
		var v float64
		if n.Decode(&v) == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
			return strconv.AppendFloat(dst, v, 'g', -1, 64)
		}
	}
	return appendText(dst, n.Value)
}

func appendText(dst []byte, text string) []byte {
	raw, _ := json.Marshal(text) //nolint:errchkjson // a string
	return append(dst, raw...)
}
