// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// manyServices is a set of services with ten methods each, all of their own messages of ten fields.
func manyServices(n int) *source.Loaded {
	load := &source.Loaded{Source: "bench"}
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
		c, err := Build([]*source.Loaded{load}, BuildOptions{})
		if err != nil || len(c.Tools()) != 2000 {
			b.Fatal(err)
		}
	}
}

// BenchmarkRegister adds one tool to a catalog of 1,000; the contract gives it 1 ms. The declared schema is compiled anew
// each time, as it is for every registration.
func BenchmarkRegister(b *testing.B) {
	live := thousandTools(b)
	before := live.Current()
	b.ReportAllocs()
	for b.Loop() {
		if _, created, err := live.Register(b.Context(), benchRegistration("desk.lookup")); err != nil || !created {
			b.Fatal(created, err)
		}
		// Forget it again, so that the catalog stays as large as it is.
		live.registered.all = nil
		live.current.Store(before)
	}
}

// BenchmarkRegisterAgain is the registration of what is registered.
func BenchmarkRegisterAgain(b *testing.B) {
	live := thousandTools(b)
	r := benchRegistration("desk.lookup")
	if _, _, err := live.Register(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, created, err := live.Register(b.Context(), r); err != nil || created {
			b.Fatal(created, err)
		}
	}
}

// BenchmarkRebind1000Registrations is what registrations add to a refresh.
func BenchmarkRebind1000Registrations(b *testing.B) {
	live := thousandTools(b)
	base := live.Current()
	for i := range 1000 {
		if _, _, err := live.Register(b.Context(), benchRegistration(fmt.Sprintf("desk.n%d", i))); err != nil {
			b.Fatal(err)
		}
	}
	limits := Limits{}.withDefaults()
	b.ReportAllocs()
	for b.Loop() {
		if c, err := base.rebind(live.registered.all, limits); err != nil || len(c.Tools()) != 2000 {
			b.Fatal(err)
		}
	}
}

func thousandTools(b *testing.B) *Live {
	b.Helper()
	from := &stubSource{}
	load := manyServices(100)
	from.set(func() (*source.Loaded, error) { return load, nil })
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(b.Context()); err != nil || len(live.Current().Tools()) != 1000 {
		b.Fatal(err)
	}
	return live
}

func benchRegistration(name string) Registration {
	return Registration{
		Name: name, Description: "Does a thing.", Binding: Binding{"bench.s50.Service50", "DoThing5"},
		InputSchema: []byte(`{"type":"object","properties":{"field0":{"type":"integer","minimum":1},"field1":{"type":"string","maxLength":64}},` +
			`"required":["field0"],"additionalProperties":false}`),
	}
}

func BenchmarkReflection200Services(b *testing.B) {
	peer := telling(manyServices(200).Files...)
	url := peer.serve(b, reflectionV1)
	from := source.NewReflection(url, dialTo(b, url), source.ReflectionOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := from.Load(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	c, err := Build([]*source.Loaded{manyServices(100)}, BuildOptions{})
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
	c, err := Build([]*source.Loaded{manyServices(100)}, BuildOptions{})
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
