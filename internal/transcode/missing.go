// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

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
