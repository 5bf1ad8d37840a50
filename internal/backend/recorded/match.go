// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Match is which recorded calls may answer a call with other arguments.
type Match string

// The ways to match.
const (
	MatchExact Match = "exact"
	MatchFuzzy Match = "fuzzy"
	MatchAny   Match = "any"
)

// redacted is what a record has in the place of a secret.
const redacted = "[redacted]"

// key is what equal arguments of a method have in common.
type key [sha256.Size]byte

// leaf is one value in arguments: where it is, and what it is.
type leaf struct {
	path, value uint64
	// identifies: the field is required, or its name says so. isAny: the record left the value out.
	identifies, isAny bool
}

// arguments are those of one call.
type arguments struct {
	// of is the procedure, or the name of a native tool.
	of       string
	messages []protoreflect.Message
	key      key
	leaves   []leaf
	// isPreview: the call has no effect, and one with an effect never answers as it does.
	isPreview bool
}

// Bounds of what is compared.
const (
	// maxLeaves bounds the values of one call that are compared one by one.
	maxLeaves = 2_000
	// maxNesting bounds the messages in one another.
	maxNesting = 64
)

// argumentsOf reads the messages of a call, of a tool that may be nil. The id of its request does not count: each call has another one.
func argumentsOf(m *catalog.Method, tool *catalog.Tool, types *catalog.Types, wires [][]byte) (*arguments, error) {
	out := &arguments{of: m.Procedure}
	if tool != nil && len(wires) == 1 {
		out.isPreview = tool.Preview.Is(wires[0])
	}
	sum := sha256.New()
	_, _ = sum.Write([]byte(m.Procedure)) // a hash takes everything
	var size [8]byte
	for i, wire := range wires {
		one := dynamicpb.NewMessage(m.Descriptor.Input())
		if err := (proto.UnmarshalOptions{DiscardUnknown: true, AllowPartial: true, Resolver: types}).Unmarshal(wire, one); err != nil {
			return nil, err
		}
		if tool != nil && tool.RequestID != nil {
			one.Clear(tool.RequestID)
		}
		same, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(one)
		if err != nil {
			return nil, err
		}
		binary.BigEndian.PutUint64(size[:], uint64(len(same)))
		_, _ = sum.Write(size[:])
		_, _ = sum.Write(same)
		f := flattener{leaves: out.leaves}
		f.message(strconv.Itoa(i), one, 0)
		out.leaves = f.leaves
		out.messages = append(out.messages, one)
	}
	sum.Sum(out.key[:0])
	slices.SortFunc(out.leaves, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	return out, nil
}

// flattener collects the values of messages.
type flattener struct{ leaves []leaf }

func (f *flattener) message(path string, m protoreflect.Message, depth int) {
	if depth > maxNesting {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(fd.Name())
		switch {
		case fd.IsList():
			for i := range v.List().Len() {
				f.value(at+"."+strconv.Itoa(i), fd, v.List().Get(i), depth)
			}
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				f.value(at+"."+k.String(), fd.MapValue(), v, depth)
				return len(f.leaves) < maxLeaves
			})
		default:
			f.value(at, fd, v, depth)
		}
		return len(f.leaves) < maxLeaves
	})
}

func (f *flattener) value(path string, fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) {
	if len(f.leaves) >= maxLeaves {
		return
	}
	if fd.Message() != nil {
		f.message(path, v.Message(), depth+1)
		return
	}
	text := v.String()
	if fd.Kind() == protoreflect.BytesKind {
		text = string(v.Bytes())
	}
	f.leaves = append(f.leaves, leaf{path: hashed(path), value: hashed(text), identifies: identifies(fd), isAny: text == redacted})
}

func hashed(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return h.Sum64()
}

// identifies reports whether a field says which thing a call is about.
func identifies(fd protoreflect.FieldDescriptor) bool {
	return schema.IsRequired(fd) || nameIdentifies(string(fd.Name()))
}

// nameIdentifies is identifies by the name alone, in the form of .proto files.
func nameIdentifies(name string) bool {
	name = strings.ToLower(name)
	last := name[strings.LastIndexByte(name, '_')+1:]
	switch strings.TrimSuffix(last, "s") {
	case "id", "name", "uid", "uuid", "key", "parent":
		return true
	}
	return false
}

// differences counts the values that are not the same in two calls, those that identify apart.
func differences(a, b []leaf) (all, identifying int) {
	count := func(l leaf) {
		if !l.isAny {
			all++
			if l.identifies {
				identifying++
			}
		}
	}
	for len(a) > 0 && len(b) > 0 {
		switch x, y := a[0], b[0]; {
		case x.path < y.path:
			count(x)
			a = a[1:]
		case y.path < x.path:
			count(y)
			b = b[1:]
		default:
			if x.value != y.value && !y.isAny {
				count(x)
			}
			a, b = a[1:], b[1:]
		}
	}
	for _, l := range slices.Concat(a, b) {
		count(l)
	}
	return all, identifying
}
