// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// marker writes a unique text into each string and each field of bytes that is treated, also in what an Any holds.
type marker struct {
	types *sources.Types
	of    func(fd protoreflect.FieldDescriptor) transcode.Treatment
	marks []string
}

func (k *marker) text() string {
	text := fmt.Sprintf("TAINT%06dTAINT", len(k.marks))
	k.marks = append(k.marks, text)
	return text
}

// message marks a message. isTreated is set below a field that is treated.
func (k *marker) message(m protoreflect.Message, isTreated bool) {
	if m.Descriptor().FullName() == "google.protobuf.Any" {
		k.any(m, isTreated)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		isTreated := isTreated || k.of(fd).Action != transcode.Show
		switch {
		case fd.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				if marked, ok := k.value(fd.MapValue(), value, isTreated); ok {
					m.Mutable(fd).Map().Set(key, marked)
				}
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				if marked, ok := k.value(fd, v.List().Get(i), isTreated); ok {
					m.Mutable(fd).List().Set(i, marked)
				}
			}
		default:
			if marked, ok := k.value(fd, v, isTreated); ok {
				m.Set(fd, marked)
			}
		}
		return true
	})
}

func (k *marker) value(fd protoreflect.FieldDescriptor, v protoreflect.Value, isTreated bool) (protoreflect.Value, bool) {
	switch {
	case fd.Message() != nil:
		k.message(v.Message(), isTreated)
	case isTreated && fd.Kind() == protoreflect.StringKind:
		return protoreflect.ValueOfString(k.text()), true
	case isTreated && fd.Kind() == protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(k.text())), true
	}
	return v, false
}

func (k *marker) any(m protoreflect.Message, isTreated bool) {
	url, value := m.Descriptor().Fields().ByName("type_url"), m.Descriptor().Fields().ByName("value")
	mt, err := k.types.FindMessageByURL(m.Get(url).String())
	if err != nil {
		return
	}
	inner := mt.New()
	if (proto.UnmarshalOptions{AllowPartial: true, Resolver: k.types}).Unmarshal(m.Get(value).Bytes(), inner.Interface()) != nil {
		return
	}
	k.message(inner, isTreated)
	if wire, err := (proto.MarshalOptions{AllowPartial: true}).Marshal(inner.Interface()); err == nil {
		m.Set(value, protoreflect.ValueOfBytes(wire))
	}
}

// forms are the encodings of a mark.
func forms(mark string) []string {
	out := []string{mark, hex.EncodeToString([]byte(mark)), strings.ToUpper(hex.EncodeToString([]byte(mark)))}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + mark))
		out = append(out, text[4:len(text)-4])
	}
	percent := ""
	for _, c := range []byte(mark) {
		percent += fmt.Sprintf("%%%02X", c)
	}
	return append(out, percent)
}

// TestNoMarkedValueLeavesAFilter: messages of the corpus with unique texts in treated fields, as bytes and as JSON.
func TestNoMarkedValueLeavesAFilter(t *testing.T) {
	all, treated, marked := 0, 0, 0
	for _, set := range everySet(t) {
		for i, md := range set.Messages() {
			if all++; os.Getenv("OUTRIGGER_FULL") == "" && i%40 != 0 || schema.IsWellKnown(md) {
				continue
			}
			isTreated, marks := marksOf(t, set, md, uint64(i))
			if marked += marks; isTreated {
				treated++
			}
		}
	}
	t.Logf("%d messages, %d treated, %d marked values", all, treated, marked)
	if marked == 0 || all < 17_000 {
		t.Error("too little was marked")
	}
}

// filterOf is the filter of a message by its fields.
func filterOf(set *sources.Set, md protoreflect.MessageDescriptor, of func(fd protoreflect.FieldDescriptor) transcode.Treatment) *transcode.Filter {
	return transcode.NewFilter(md, transcode.FilterOptions{
		Of: func(_ string, fd protoreflect.FieldDescriptor) transcode.Treatment { return of(fd) },
		Resolve: func(url string) protoreflect.MessageDescriptor {
			mt, err := set.Types.FindMessageByURL(url)
			if err != nil {
				return nil
			}
			return mt.Descriptor()
		},
		Extensions: set.Types, Digest: func([]byte) string { return "00ff" },
	})
}

// marksOf fails where a marked value of a random message leaves its filter, and returns how many there were.
func marksOf(t *testing.T, set *sources.Set, md protoreflect.MessageDescriptor, seed uint64) (isTreated bool, marks int) {
	t.Helper()
	of := func(fd protoreflect.FieldDescriptor) transcode.Treatment {
		h := fnv.New32a()
		_, _ = h.Write(fmt.Append(nil, uint32(seed), fd.FullName()))
		n := h.Sum32()
		if n%3 != 0 || strings.HasPrefix(string(fd.FullName()), "google.protobuf.") {
			return transcode.Treatment{}
		}
		return transcode.Treatment{Action: transcode.Mask + transcode.Action(n/3%3)}
	}
	g := &generator{Rand: rand.New(rand.NewPCG(1, seed)), types: set.Types, dir: schema.Output, anys: []protoreflect.FullName{md.FullName(), "google.rpc.Status"}}
	m, ok := g.message(md)
	if !ok {
		return false, 0
	}
	k := &marker{types: set.Types, of: of}
	k.message(m, false)
	f := filterOf(set, md, of)
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	left, err := f.Apply(nil, wire)
	if err != nil {
		t.Fatalf("%s: %v", md.FullName(), err)
	}
	out := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{Resolver: set.Types, AllowPartial: true}).Unmarshal(left, out); err != nil {
		t.Fatalf("%s: %v", md.FullName(), err)
	}
	doc, err := protojson.MarshalOptions{Resolver: set.Types, AllowPartial: true}.Marshal(out)
	if err != nil {
		t.Errorf("%s: what is left has no JSON: %v", md.FullName(), err)
	}
	for _, mark := range k.marks {
		for _, form := range forms(mark) {
			if bytes.Contains(left, []byte(form)) || bytes.Contains(doc, []byte(form)) {
				t.Fatalf("%s: %s is in %x\n%s", md.FullName(), form, left, doc)
			}
		}
	}
	return f.Treats(), len(k.marks)
}
