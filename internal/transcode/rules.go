// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// use says for which direction rules are checked. It matters for the fields that only one direction has.
type use uint8

const (
	forInput use = iota
	forOutput
	forEither
)

// ruleBook is protovalidate's validator, which compiles the rules of each message once and keeps them. It is safe for
// concurrent use.
type ruleBook struct {
	validator protovalidate.Validator
	texts     sync.Map // see textRules
}

func newRuleBook(opts Options) (*ruleBook, error) {
	// Predefined rules are extensions of the rule messages: those that the catalog knows take part, and an unknown
	// one is an error when the message is compiled, not a rule that silently does nothing.
	var options []protovalidate.ValidatorOption
	if opts.Resolver != nil {
		options = append(options, protovalidate.WithExtensionTypeResolver(opts.Resolver))
	}
	v, err := protovalidate.New(options...)
	if err != nil {
		return nil, fmt.Errorf("new validator: %w", err)
	}
	return &ruleBook{validator: v}, nil
}

// prepare compiles the rules of a message and of all below it, by checking an empty one.
func (r *ruleBook) prepare(md protoreflect.MessageDescriptor) error {
	var broken *protovalidate.CompilationError
	if err := r.validator.Validate(dynamicpb.NewMessage(md)); errors.As(err, &broken) {
		return err
	}
	return nil
}

// checkRules returns an *InputError for broken rules, and a *RuleError for rules that cannot be run. Another error is that of
// the context. n is the size of the message in bytes, whatever its form, and doc the document that it came in; nil for wire bytes.
func (m *Message) checkRules(ctx context.Context, msg *dynamicpb.Message, n int, u use, doc []byte) error {
	if m.rules == nil {
		return nil
	}
	if err := m.affordable(ctx, msg, n); err != nil {
		return err
	}
	var options []protovalidate.ValidationOption
	if len(m.traits.hidden) > 0 {
		options = append(options, protovalidate.WithFilter(filter{m.traits.hidden, u}))
	}
	err := m.rules.validator.Validate(msg, options...)
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return &RuleError{Message: string(m.md.FullName()), Err: err}
	}
	sent, raw := m.sent(doc), broken.ToProto()
	if limit := m.opts.limit(); limit > 0 && len(raw.GetViolations()) > limit {
		raw.Violations = raw.GetViolations()[:limit]
	}
	found := make([]schema.Violation, 0, len(broken.Violations))
	for _, v := range broken.Violations {
		found = append(found, violationFrom(m.md, v, sent))
	}
	return &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Broken: raw}
}

// filter leaves out the fields that the direction does not have: their rules cannot be satisfied.
type filter struct {
	hidden map[protoreflect.FullName]schema.Behavior
	use    use
}

// ShouldValidate implements protovalidate's Filter.
func (f filter) ShouldValidate(msg protoreflect.Message, d protoreflect.Descriptor) bool {
	fd, ok := d.(protoreflect.FieldDescriptor)
	if !ok {
		return true
	}
	b := f.hidden[fd.FullName()]
	switch f.use {
	case forInput:
		return !b.OutputOnly
	case forOutput:
		return !b.InputOnly
	default:
		return !b.OutputOnly && !b.InputOnly || msg.Has(fd)
	}
}

// violationFrom turns protovalidate's field path into a JSON Pointer with the names that ProtoJSON writes. sent is the document
// that was sent, nil where it is not known: a field that it does not have is missing, whatever zero the rule was asked about.
func violationFrom(md protoreflect.MessageDescriptor, v *protovalidate.Violation, sent any) schema.Violation {
	path, rest := pointerFrom(md, v.Proto.GetField().GetElements())
	keyword := v.Proto.GetRuleId()
	message := v.Proto.GetMessage()
	if message == "" {
		message = "wanted the rule " + keyword + " to hold"
	}
	if v.Proto.GetForKey() {
		message = "key: " + message
	}
	if rest != "" {
		message = rest + ": " + message
	}
	switch {
	case v.Proto.GetForKey():
	case isMissing(md, v.Proto.GetField().GetElements(), sent):
		message = missingWord + message
	case v.FieldDescriptor != nil && v.FieldValue.IsValid():
		message += foundText(v.FieldDescriptor, v.FieldValue)
	}
	return schema.Violation{Path: path, Keyword: keyword, Message: message}
}

// pointerFrom walks a field path. What is no field, such as the name of a oneof, cannot be pointed at and is returned in
// words; what lies inside a well-known type is not in its JSON.
func pointerFrom(md protoreflect.MessageDescriptor, elements []*validate.FieldPathElement) (path, rest string) {
	for _, e := range elements {
		if md == nil {
			return path, ""
		}
		fd := fieldByElement(md, e)
		if fd == nil {
			return path, oneofText(md, e.GetFieldName())
		}
		path = schema.AppendPointer(path, schema.Names(fd)[0])
		if token, ok := subscript(e); ok {
			path = schema.AppendPointer(path, token)
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		md = fd.Message()
		if md != nil && schema.IsWellKnown(md) {
			md = nil
		}
	}
	return path, ""
}

func fieldByElement(md protoreflect.MessageDescriptor, e *validate.FieldPathElement) protoreflect.FieldDescriptor {
	if e.GetFieldNumber() == 0 {
		return nil
	}
	return md.Fields().ByNumber(protoreflect.FieldNumber(e.GetFieldNumber()))
}

func oneofText(md protoreflect.MessageDescriptor, name string) string {
	od := md.Oneofs().ByName(protoreflect.Name(name))
	if od == nil {
		return name
	}
	var names []string
	for i := range od.Fields().Len() {
		names = append(names, schema.Names(od.Fields().Get(i))[0])
	}
	return name + " (" + strings.Join(names, ", ") + ")"
}

func subscript(e *validate.FieldPathElement) (string, bool) {
	switch s := e.GetSubscript().(type) {
	case *validate.FieldPathElement_Index:
		return strconv.FormatUint(s.Index, 10), true
	case *validate.FieldPathElement_BoolKey:
		return strconv.FormatBool(s.BoolKey), true
	case *validate.FieldPathElement_IntKey:
		return strconv.FormatInt(s.IntKey, 10), true
	case *validate.FieldPathElement_UintKey:
		return strconv.FormatUint(s.UintKey, 10), true
	case *validate.FieldPathElement_StringKey:
		return s.StringKey, true
	default:
		return "", false
	}
}

// maxFound bounds what a message repeats of a value.
const maxFound = 64

// foundText says what a scalar was. Lists, maps and messages are where the path says.
func foundText(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		if r := []rune(x); len(r) > maxFound {
			return fmt.Sprintf(", found a string of %d characters", len(r))
		}
		return fmt.Sprintf(", found %q", x)
	case []byte:
		return fmt.Sprintf(", found %d bytes", len(x))
	case protoreflect.EnumNumber:
		if fd.Enum() != nil {
			if ev := fd.Enum().Values().ByNumber(x); ev != nil {
				return ", found " + string(ev.Name())
			}
		}
		return fmt.Sprintf(", found %d", x)
	case bool, int32, int64, uint32, uint64, float32, float64:
		return fmt.Sprintf(", found %v", x)
	default:
		return ""
	}
}
