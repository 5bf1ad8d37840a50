// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// An Any of an unknown type is not lost: its JSON is {"@type": URL, "value": bytes in base64}. That is the form
// which ProtoJSON gives to an Any of a google.protobuf.BytesValue, so the general engine sees such an Any as one: its
// value is put into a BytesValue before protojson writes it, and taken out after protojson has read it.

// maxNoted bounds how many unknown types of one answer are reported: each may cost a question to the backend.
const maxNoted = 16

// anyName is the message that holds any other.
const anyName protoreflect.FullName = "google.protobuf.Any"

// The fields of Any and of BytesValue.
const (
	anyURL     protowire.Number = 1
	anyValue   protowire.Number = 2
	bytesField protowire.Number = 1
)

// opaqueTypes are the types as one document sees them: one that is unknown once stays so, although the resolver may
// learn it meanwhile.
type opaqueTypes struct {
	Resolver
	// forInput: only what is a type's URL can be an unknown type. An answer is passed
	// on whatever its types are called.
	forInput bool
	unknown  map[string]bool
	last     string // of the unknown ones
}

// FindMessageByURL finds every type; values of unknown types are bytes.
func (o *opaqueTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if mt := o.known(url); mt != nil {
		return mt, nil
	}
	if o.forInput && !isTypeURL(url) {
		return nil, protoregistry.NotFound
	}
	return (&wrapperspb.BytesValue{}).ProtoReflect().Type(), nil
}

// known returns the type, or nil for an unknown one.
func (o *opaqueTypes) known(url string) protoreflect.MessageType {
	if o.unknown[url] {
		return nil
	}
	mt, err := o.Resolver.FindMessageByURL(url)
	if err == nil {
		return mt
	}
	if o.unknown == nil {
		o.unknown = map[string]bool{}
	}
	o.unknown[url], o.last = true, url
	return nil
}

// isTypeURL holds for what google.protobuf.Any asks of a type's URL: a slash, and the
// full name of a type behind the last one.
func isTypeURL(url string) bool {
	slash := strings.LastIndexByte(url, '/')
	return slash >= 0 && protoreflect.FullName(url[slash+1:]).IsValid()
}

// noted adds a type to a list of unknown ones, each once and within the bound.
func noted(list []string, url string) []string {
	if len(list) >= maxNoted || slices.Contains(list, url) {
		return list
	}
	return append(list, url)
}

// errDeepAny is what an answer gets that nests Any in Any without end.
var errDeepAny = errors.New("more than 1,000 nested google.protobuf.Any messages")

// anyWalk changes the values of unknown types everywhere in a message.
type anyWalk struct {
	types  *opaqueTypes
	change func(value []byte) ([]byte, error)
}

// message reports whether it changed anything. Only then is the value of an Any around it encoded again: an encoding that
// came from outside is not replaced by another one without need.
func (w *anyWalk) message(m protoreflect.Message, depth int) (bool, error) {
	if depth > maxWireDepth {
		return false, errDeepAny
	}
	if m.Descriptor().FullName() == anyName {
		return w.any(m, depth)
	}
	var changed bool
	var failed error
	below := func(v protoreflect.Value) bool {
		did, err := w.message(v.Message(), depth+1)
		changed, failed = changed || did, err
		return err == nil
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return below(v) })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				if !below(v.List().Get(i)) {
					break
				}
			}
		default:
			below(v)
		}
		return failed == nil
	})
	return changed, failed
}

func (w *anyWalk) any(m protoreflect.Message, depth int) (bool, error) {
	fields := m.Descriptor().Fields()
	urlField, valueField := fields.ByNumber(anyURL), fields.ByNumber(anyValue)
	if urlField == nil || valueField == nil || urlField.Kind() != protoreflect.StringKind || valueField.Kind() != protoreflect.BytesKind {
		return false, nil
	}
	url, value := m.Get(urlField).String(), m.Get(valueField).Bytes()
	if url == "" {
		return false, nil
	}
	mt := w.types.known(url)
	if mt == nil {
		value, err := w.change(value)
		if err == nil {
			m.Set(valueField, protoreflect.ValueOfBytes(value))
		}
		return true, err
	}
	inner := mt.New()
	if (proto.UnmarshalOptions{AllowPartial: true, Resolver: w.types.Resolver, RecursionLimit: maxWireDepth}).Unmarshal(value, inner.Interface()) != nil {
		return false, nil //nolint:nilerr // protojson says so as well
	}
	changed, err := w.message(inner, depth+1)
	if !changed || err != nil {
		return false, err
	}
	value, err = proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner.Interface())
	if err == nil {
		m.Set(valueField, protoreflect.ValueOfBytes(value))
	}
	return true, err
}

// intoBytes is the encoding of a BytesValue.
func intoBytes(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, bytesField, protowire.BytesType), value), nil
}

// outOfBytes is what a BytesValue holds.
func outOfBytes(value []byte) ([]byte, error) {
	held := new(wrapperspb.BytesValue)
	err := proto.Unmarshal(value, held)
	return held.GetValue(), err
}

// opaque writes an Any of an unknown type.
func (w *writer) opaque(url string, value []byte) bool {
	w.unknown = noted(w.unknown, url)
	w.out = append(jsontext.AppendString(append(w.out, `{"`+typeMember+`":`...), url), `,"value":`...)
	w.out = append(base64.StdEncoding.AppendEncode(append(w.out, '"'), value), '"', '}')
	return true
}

// opaque reads the value of an Any of an unknown type, to which out ends with the byte of its length. The document has the
// form of an Any of a BytesValue, so the plan of BytesValue reads it and appends tag, length and content. What the Any is
// to hold is the content alone, which is moved down over tag and length.
func (r *reader) opaque(pos, depth int) int {
	start := len(r.out)
	bytesPlan := r.planner.of((&wrapperspb.BytesValue{}).ProtoReflect().Descriptor()).prepared()
	if pos = r.packedValue(bytesPlan, pos, depth); pos < 0 {
		return refused
	}
	if len(r.out) == start {
		return pos
	}
	_, typ, tag := protowire.ConsumeTag(r.out[start:])
	if tag < 0 || typ != protowire.BytesType {
		return refused
	}
	held, n := protowire.ConsumeBytes(r.out[start+tag:])
	if n < 0 || start+tag+n != len(r.out) {
		return refused
	}
	r.out = append(r.out[:start], held...)
	return pos
}

// unknownTypeText tells a caller what can be sent in an Any of an unknown type.
func unknownTypeText(url string) string {
	return fmt.Sprintf(`unknown type %q: send {"@type": its URL, "value": its encoding in base64}, and no other members`, clipURL(url))
}

// clipURL bounds what is repeated of a type's URL.
func clipURL(url string) string {
	const most = 200
	if len(url) <= most {
		return url
	}
	return url[:most] + " ..."
}
