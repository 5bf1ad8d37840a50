// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// FuzzPlanReads lets the plan and the general engine judge arbitrary text for every message.
func FuzzPlanReads(f *testing.F) {
	all := subjects(f, everything)
	values, next := fragments(), 0
	for i, s := range all {
		f.Add(uint8(i), []byte(`{"@type":"type.googleapis.com/shapes.v1.Leaf","name":"\u00e4"}`))
		for j := range s.md.Fields().Len() {
			f.Add(uint8(i), []byte(`{"`+s.md.Fields().Get(j).JSONName()+`":`+values[next%len(values)]+`}`))
			next++
		}
		for range 6 {
			f.Add(uint8(i), []byte(values[next%len(values)]))
			next++
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		agreeOnDocument(t, all[int(which)%len(all)], doc)
	})
}

// FuzzPlanWrites lets the plan and the general engine judge arbitrary bytes for every message.
func FuzzPlanWrites(f *testing.F) {
	all := subjects(f, everything)
	values, next := fragments(), 0
	for i, s := range all {
		f.Add(uint8(i), []byte{0x08, 1, 0x10, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a, 0})
		for j := range s.md.Fields().Len() {
			for range 4 {
				m := dynamicpb.NewMessage(s.md)
				doc := []byte(`{"` + s.md.Fields().Get(j).JSONName() + `":` + values[next%len(values)] + `}`)
				next++
				if (protojson.UnmarshalOptions{Resolver: s.resolver, AllowPartial: true}).Unmarshal(doc, m) != nil {
					continue
				}
				if wire, err := (proto.MarshalOptions{AllowPartial: true}).Marshal(m); err == nil {
					f.Add(uint8(i), wire)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		agreeOnWire(t, all[int(which)%len(all)], wire)
	})
}
