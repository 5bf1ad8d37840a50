// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// FuzzToWire lets the schemas, the transcoder and protojson judge arbitrary text for every message.
func FuzzToWire(f *testing.F) {
	all := subjects(f, withoutRules)
	f.Add(uint8(0), []byte(`{"name":"x"`))
	f.Add(uint8(0), []byte("{\"name\":\"\xff\"}"))
	// Each field once, each time with another fragment: seeds are run before anything new is tried.
	values, next := fragments(), 0
	for i, s := range all {
		for j := range s.md.Fields().Len() {
			f.Add(uint8(i), []byte(`{"`+s.md.Fields().Get(j).JSONName()+`":`+values[next%len(values)]+`}`))
			next++
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		compare(t, all[int(which)%len(all)], doc)
	})
}

// FuzzToJSON lets the transcoder and protojson judge arbitrary bytes, and the output schema what comes of them.
func FuzzToJSON(f *testing.F) {
	all := subjects(f, withoutRules)
	for i := range all {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte{0x0a, 3, 'a', 'b', 'c'})
		f.Add(uint8(i), []byte{0x08, 1, 0x10, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a, 0})
	}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		s := all[int(which)%len(all)]
		got, noted, err := s.message.ToJSONNoting(t.Context(), nil, nil, wire)
		m := dynamicpb.NewMessage(s.md)
		byProto := (proto.UnmarshalOptions{Resolver: s.resolver, RecursionLimit: 1000}).Unmarshal(wire, m)
		if s.message.Decodes(wire) && byProto != nil {
			t.Fatalf("%s: the quick check takes what does not decode: %v", s.md.FullName(), byProto)
		}
		if checked := s.message.CheckWire(t.Context(), wire); (checked == nil) != (byProto == nil) {
			t.Fatalf("%s: checked: %v; decoded: %v", s.md.FullName(), checked, byProto)
		}
		var want []byte
		if byProto == nil {
			want, byProto = protojson.MarshalOptions{Resolver: s.resolver, EmitDefaultValues: true}.Marshal(m)
		}
		if err == nil && isUnknownType(byProto) {
			// What protojson has no JSON for, the next reader takes as it was written.
			back, err := s.message.ToWire(nil, got)
			if err == nil {
				again, err := s.message.ToJSON(nil, back)
				if err != nil || !bytes.Equal(got, again) {
					t.Fatalf("%s came back as %s: %v", got, again, err)
				}
			}
			return
		}
		if isOdd := len(noted.Odd) > 0; (err == nil) != (byProto == nil || isOdd) || isOdd && byProto == nil {
			t.Fatalf("transcoder %v, protojson %v, noted %v", err, byProto, noted.Odd)
		}
		if err != nil {
			var broken *transcode.OutputError
			if !errors.As(err, &broken) {
				t.Fatalf("error is %T", err)
			}
			return
		}
		// What protojson has no form for is written in the nearest one.
		if len(noted.Odd) == 0 && !bytes.Equal(withoutSpaces(want), withoutSpaces(got)) {
			t.Fatalf("want %s\ngot  %s", want, got)
		}
		if found, err := s.answer.Validate(got); err != nil || len(found) > 0 {
			t.Fatalf("output schema refuses %s: %v %v", got, found, err)
		}
	})
}

func withoutSpaces(b []byte) []byte { return bytes.ReplaceAll(b, []byte(" "), nil) }
