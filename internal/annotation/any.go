// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

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
	var out bytes.Buffer
	if err != nil || json.Compact(&out, raw) != nil { // protojson adds spaces at random
		return "", false
	}
	return out.String(), true
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
