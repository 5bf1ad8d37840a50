// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// InputError means that a document or message does not match its descriptor or breaks its rules. From ToWire, the caller
// made the mistake, and Violations list what to fix. From ToJSON and CheckWire, the bytes are a message of the type but
// break a rule. The texts may repeat parts of the document.
type InputError struct {
	// Violations are sorted by path and at most Options.MaxViolations; there is at least one.
	Violations []schema.Violation
	// Structural is set if the document does not match the structure of the message. Otherwise it breaks rules.
	Structural bool
	// Broken are the broken rules as protovalidate reports them, as many as Options.MaxViolations; nil if the document does
	// not match the structure.
	Broken *validate.Violations
}

// Error names the first violation and counts the others.
func (e *InputError) Error() string {
	what := "breaks a rule"
	if e.Structural {
		what = "does not match the form of the message"
	}
	if len(e.Violations) == 0 {
		return "transcode: document " + what
	}
	first := e.Violations[0]
	text := fmt.Sprintf("transcode: document %s: at %q: %s", what, first.Path, first.Message)
	if more := len(e.Violations) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// OutputError means that wire bytes are not an encoding of the message, or hold what JSON cannot express. The most common
// cause is a sender with another version of the .proto file.
type OutputError struct {
	// Step is "decode" if the bytes could not be read, and "encode" if the message could not be written as JSON.
	Step string
	// Err is the cause. Its text is for logs: it comes from the Protobuf library and changes with its version.
	Err error
	// Where is the place of the first fault, as a path of JSON names, with what is wrong there and the first bytes in
	// hexadecimal. Bytes of fields that are marked secret are withheld. It is for logs too.
	Where string
}

// Error names the step, the cause and the place.
func (e *OutputError) Error() string {
	text := "transcode: " + e.Step + " answer: " + e.Err.Error()
	if e.Where != "" {
		text += " (" + e.Where + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// ruleError means that the rules of a message are invalid themselves. It is found when the message is compiled or, for a
// CEL rule that fails on a value, when the rule runs. The service's .proto files have to be fixed.
type ruleError struct {
	// Message is the full name of the message that was compiled. The rule may belong to a message below it.
	Message string
	// Err is the error of protovalidate.
	Err error
}

// Error names the message and the problem with its rules.
func (e *ruleError) Error() string {
	return "transcode: rules of " + e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ruleError) Unwrap() error { return e.Err }

// Bounds of what an OutputError says about a place.
const (
	// shownBytes is enough to recognise an encoding or a text.
	shownBytes = 16
	// maxSegment bounds each segment of a path. Keys of maps are as long as their sender likes.
	maxSegment = 64
)

// located adds to an OutputError where in the wire bytes the first fault is. It returns err.
func (m *Message) located(err error, wire []byte) error {
	var broken *OutputError
	if errors.As(err, &broken) {
		broken.Where = m.locate(wire)
	}
	return err
}

func (m *Message) locate(wire []byte) (where string) {
	where = "bytes " + firstBytes(wire)
	defer func() { _ = recover() }() // as in decode, the library panics on some entries of maps
	l := locator{resolver: m.resolver, isSecret: m.shared.opts.secret}
	if l.message(m.md, wire, "", 1) {
		where = l.found
	}
	return where
}

// locator looks for the first field that cannot be read. The Protobuf library does not say which one that is.
type locator struct {
	resolver Resolver
	isSecret func(protoreflect.FieldDescriptor) bool
	found    string
}

func (l *locator) fault(path, what string, at []byte, isSecret bool) bool {
	shown := "bytes " + firstBytes(at)
	if isSecret {
		shown = "bytes withheld"
	}
	l.found = fmt.Sprintf("at %q: %s, %s", path, what, shown)
	return true
}

func firstBytes(b []byte) string {
	if len(b) == 0 {
		return "(none)"
	}
	text := fmt.Sprintf("% x", b[:min(len(b), shownBytes)])
	if len(b) > shownBytes {
		text += fmt.Sprintf(" ... (%d)", len(b))
	}
	return text
}

// message looks into the bytes of a message and reports whether it found a fault.
func (l *locator) message(md protoreflect.MessageDescriptor, wire []byte, path string, depth int) bool {
	if depth > maxWireDepth {
		return l.fault(path, "nested too deeply", wire, false)
	}
	counts := map[protoreflect.FieldNumber]int{}
	for b := wire; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l.fault(path, "no field begins here ("+protowire.ParseError(n).Error()+")", b, false)
		}
		fd := md.Fields().ByNumber(number)
		at := path
		if fd != nil {
			at += segment(fd, counts[number])
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return l.fault(at, "the value of field "+strconv.Itoa(int(number))+" cannot be read ("+protowire.ParseError(size).Error()+")", b[n:], fd != nil && l.isSecret(fd))
		}
		value := b[n : n+size]
		b = b[n+size:]
		if fd == nil {
			continue
		}
		counts[number]++
		if l.field(fd, kind, value, at, depth) {
			return true
		}
	}
	return false
}

// segment is what a field adds to a path. Some well-known types have no names in JSON for their fields.
func segment(fd protoreflect.FieldDescriptor, index int) string {
	name := "/" + fd.JSONName()
	switch fd.ContainingMessage().FullName() {
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue", anyName:
		name = ""
	}
	if fd.IsList() {
		name += "/" + strconv.Itoa(index)
	}
	return name
}

func (l *locator) field(fd protoreflect.FieldDescriptor, kind protowire.Type, value []byte, path string, depth int) bool {
	if kind != protowire.BytesType {
		return false
	}
	content, _ := protowire.ConsumeBytes(value)
	switch {
	case fd.IsMap():
		return l.entry(fd, content, path, depth)
	case fd.Message() != nil:
		return l.message(fd.Message(), content, path, depth+1)
	case fd.Kind() == protoreflect.StringKind && !utf8.Valid(content):
		good := 0
		for r, size := utf8.DecodeRune(content); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(content[good:]) {
			good += size
		}
		return l.fault(path, "invalid UTF-8 at byte "+strconv.Itoa(good), content[good:], l.isSecret(fd))
	}
	return false
}

// entry looks into an entry of a map. Its path has the key.
func (l *locator) entry(fd protoreflect.FieldDescriptor, content []byte, path string, depth int) bool {
	entry := dynamicpb.NewMessage(fd.Message())
	key := "?"
	if (proto.UnmarshalOptions{Merge: true, AllowPartial: true, Resolver: l.resolver, RecursionLimit: maxWireDepth}).Unmarshal(content, entry) == nil || entry.Has(fd.MapKey()) {
		key = entry.Get(fd.MapKey()).String()
	}
	if len(key) > maxSegment {
		key = key[:maxSegment] + "..."
	}
	path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.ToValidUTF8(key, "?"))
	for b := content; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		size := -1
		if n > 0 {
			size = protowire.ConsumeFieldValue(number, kind, b[n:])
		}
		if size < 0 {
			return l.fault(path, "an entry that cannot be read", b, l.isSecret(fd))
		}
		if part := fd.Message().Fields().ByNumber(number); part != nil && l.field(part, kind, b[n:n+size], path, depth+1) {
			return true
		}
		b = b[n+size:]
	}
	return false
}

// missingWord begins what is said about a field that a rule is broken for because it was not sent.
const missingWord = "missing; "

// sent parses a document that was read before; nil for none.
func (m *Message) sent(doc []byte) any {
	if doc == nil {
		return nil
	}
	read := json.NewDecoder(bytes.NewReader(m.unwrap(doc)))
	read.UseNumber()
	var out any
	if read.Decode(&out) != nil {
		return nil
	}
	return out
}

// isMissing reports whether a document has nothing at a field path of protovalidate. It does not know of what is inside of other
// values than objects and lists, or of a map's key in another spelling.
func isMissing(md protoreflect.MessageDescriptor, elements []*validate.FieldPathElement, sent any) bool {
	for _, e := range elements {
		members, ok := sent.(map[string]any)
		if !ok || md == nil {
			return false
		}
		fd := fieldByElement(md, e)
		if fd == nil {
			return false // the name of a oneof
		}
		found := false
		for _, name := range schema.Names(fd) {
			if v, ok := members[name]; ok && (v != nil || schema.TakesNull(fd) && !fd.IsList()) {
				sent, found = v, true
			}
		}
		if !found {
			return true
		}
		if token, ok := subscript(e); ok {
			if sent, ok = below(sent, token); !ok {
				return false
			}
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if md = fd.Message(); md != nil && schema.IsWellKnown(md) {
			md = nil
		}
	}
	return false
}

// below is a member or an element of a value.
func below(v any, token string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out, ok := v[token]
		return out, ok
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// readRest reads a document that is wrong without what is wrong with it: the members at the paths of violations, or around them in
// a list. The message is nil where that is not enough. without are the paths that were left out.
func (m *Message) readRest(doc []byte, found []schema.Violation) (msg *dynamicpb.Message, rest []byte, without []string) {
	root, ok := m.sent(doc).(map[string]any)
	if !ok || m.rules == nil || m.wrapped {
		return nil, nil, nil
	}
	for _, v := range found {
		if left, ok := leaveOut(root, v.Path); ok {
			without = append(without, left)
		}
	}
	rest, err := json.Marshal(root)
	if err != nil || len(without) == 0 {
		return nil, nil, nil
	}
	msg = dynamicpb.NewMessage(m.md)
	if (protojson.UnmarshalOptions{Resolver: m.resolver}).Unmarshal(m.emptied(rest), msg) != nil {
		return nil, nil, nil
	}
	return msg, rest, without
}

// leaveOut removes the innermost member of an object on the way to a path, and returns where that was.
func leaveOut(root map[string]any, path string) (left string, ok bool) {
	if path == "" {
		return "", false
	}
	var holder map[string]any
	var name string
	var at any = root
	end := 0
	for token := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		plain := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		end += len("/") + len(token)
		members, isObject := at.(map[string]any)
		if at, ok = below(at, plain); !ok {
			return "", false
		}
		if isObject {
			holder, name, left = members, plain, path[:end]
		}
	}
	delete(holder, name)
	return left, true
}

// alsoRules adds the broken rules of a message to what is wrong with the form of its document. What depends on the paths that were
// left out is not known, and so not said.
func (m *Message) alsoRules(ctx context.Context, err error, msg *dynamicpb.Message, doc []byte, without []string) error {
	var refused, broken *InputError
	if !errors.As(err, &refused) || !errors.As(m.checkRules(ctx, msg, len(doc), forInput, doc), &broken) {
		return err
	}
	known := map[string]int{}
	for i, v := range refused.Violations {
		known[v.Path] = i
	}
	all := refused.Violations
	for _, v := range broken.Violations {
		i, isKnown := known[v.Path]
		switch {
		case isKnown && strings.HasPrefix(v.Message, missingWord) && all[i].Keyword == "required":
			all[i].Message = v.Message
		case isKnown || touches(v.Path, without):
		default:
			all = append(all, v)
		}
	}
	return &InputError{Violations: schema.SortViolations(all, m.opts.limit()), Structural: true}
}

// touches reports whether one of the paths is the path, around it or in it.
func touches(path string, others []string) bool {
	for _, other := range others {
		if strings.HasPrefix(path+"/", other+"/") || strings.HasPrefix(other+"/", path+"/") {
			return true
		}
	}
	return false
}
