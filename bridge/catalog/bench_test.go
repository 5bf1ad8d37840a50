// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"
)

// manyServices is a set of services with ten methods each, all of their own messages of ten fields.
func manyServices(n int) *Loaded {
	load := &Loaded{Source: "bench"}
	for i := range n {
		var methods []string
		for j := range 10 {
			methods = append(methods, fmt.Sprintf("Service%d/DoThing%d", i, j))
		}
		f := rpcFile(fmt.Sprintf("s%d.proto", i), fmt.Sprintf("bench.s%d", i), methods...)
		for _, m := range f.GetMessageType() {
			for k := range int32(10) {
				m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
					Name: new(fmt.Sprintf("field_%d", k)), Number: new(k + 1),
					Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
					Type:  descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(),
				})
			}
		}
		load.Files = append(load.Files, f)
	}
	return load
}

// BenchmarkBuild200Services is the part of discovery that is ours; the contract gives discovery of 200 services 2 s.
func BenchmarkBuild200Services(b *testing.B) {
	load := manyServices(200)
	b.ReportAllocs()
	for b.Loop() {
		c, err := Build([]*Loaded{load}, BuildOptions{})
		if err != nil || len(c.Tools()) != 2000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkReflection200Services(b *testing.B) {
	peer := telling(manyServices(200).Files...)
	url := peer.serve(b, reflectionV1)
	source := NewReflection(url, dialTo(b, url), ReflectionOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := source.Load(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	c, err := Build([]*Loaded{manyServices(100)}, BuildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Lookup("service50_do_thing5"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkNearestOf1000(b *testing.B) {
	c, err := Build([]*Loaded{manyServices(100)}, BuildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !slices.Contains(c.Nearest("service50.do_thnig5", 3), "service50.do_thing5") {
			b.Fatal("not found")
		}
	}
}
