// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// harbour is a catalog of one service. Its tool harbour.moor takes the fields
// that are named, all of type int32, and answers {"berth": string};
// harbour.tide answers a Timestamp, which is no object in JSON.
func harbour(t testing.TB, fields ...string) *catalog.Catalog {
	t.Helper()
	in := &descriptorpb.DescriptorProto{Name: new("MoorRequest")}
	for i, name := range fields {
		in.Field = append(in.Field, field(name, int32(i+1), descriptorpb.FieldDescriptorProto_TYPE_INT32))
	}
	out := &descriptorpb.DescriptorProto{Name: new("Mooring"), Field: []*descriptorpb.FieldDescriptorProto{
		field("berth", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING),
	}}
	file := &descriptorpb.FileDescriptorProto{
		Name: new("port/v1/harbour.proto"), Package: new("port.v1"), Syntax: new("proto3"),
		Dependency:  []string{"google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{in, out},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Harbour"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Moor"), InputType: new(".port.v1.MoorRequest"), OutputType: new(".port.v1.Mooring")},
			{Name: new("Tide"), InputType: new(".port.v1.MoorRequest"), OutputType: new(".google.protobuf.Timestamp")},
		}}},
	}
	timestamp := &descriptorpb.FileDescriptorProto{
		Name: new("google/protobuf/timestamp.proto"), Package: new("google.protobuf"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Timestamp"), Field: []*descriptorpb.FieldDescriptorProto{
			field("seconds", 1, descriptorpb.FieldDescriptorProto_TYPE_INT64), field("nanos", 2, descriptorpb.FieldDescriptorProto_TYPE_INT32),
		}}},
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{timestamp, file}}
	load, err := source.NewDescriptors("test", set, "port.v1.Harbour").Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{load}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

// TestLoadToolIO finds a tool by either name, and keeps the one that was asked for.
func TestLoadToolIO(t *testing.T) {
	t.Parallel()
	r := contracttest.Of(harbour(t, "length"))
	canonical, mcp := r.Load(t, "harbour.moor"), r.Load(t, "harbour_moor")
	if canonical.Tool != "harbour.moor" || mcp.Tool != "harbour_moor" || mcp.Name != "harbour.moor" || len(mcp.Fingerprint) != 64 {
		t.Errorf("asked for both names, got %+v and %+v", canonical, mcp)
	}
	if canonical.Input != mcp.Input || canonical.Output != mcp.Output {
		t.Error("the same tool was compiled twice")
	}
	for _, name := range []string{"", "harbour.moo", "Harbour.Moor", "harbour.moor\x00", strings.Repeat("x", 1<<20)} {
		io, err := r.LoadToolIO(name)
		if io != nil || !errors.Is(err, catalog.ErrUnknownTool) || len(err.Error()) > 1000 {
			t.Errorf("%.40q: %v, %.200v", name, io, err)
		}
	}
}

// TestNoCatalogYet is a registry over what has not been loaded.
func TestNoCatalogYet(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive(nil, catalog.LiveOptions{})
	for _, r := range []*contracttest.SchemaRegistry{
		contracttest.Of(nil), contracttest.New(live.Current, contracttest.Options{}),
	} {
		if _, err := r.LoadToolIO("harbour.moor"); !errors.Is(err, catalog.ErrUnknownTool) {
			t.Errorf("%v, want ErrUnknownTool", err)
		}
	}
}

// TestValidateIO names everything that is wrong with a recorded call.
func TestValidateIO(t *testing.T) {
	t.Parallel()
	r := contracttest.Of(harbour(t, "length", "beam"))
	tests := []struct {
		name, tool, doc string
		want            []string // path and keyword
	}{
		{"good", "harbour.moor", `{"tool":"harbour.moor","input":{"length":12},"output":{"berth":"A"}}`, nil},
		{"good, spread out and escaped", "harbour.moor", " {\n \"outpu\\u0074\" : {\"berth\":\"\"} , \"input\":{},\"tool\" : \"harbour\\u002emoor\" }\n", nil},
		{"good, with other members", "harbour.moor", `{"tool":"harbour.moor","input":{},"output":{"berth":"A"},"durationMs":3}`, nil},
		{"good, as asked", "harbour_moor", `{"tool":"harbour_moor","input":{},"output":{"berth":"A"}}`, nil},
		{"no object, wrapped", "harbour.tide", `{"tool":"harbour.tide","input":{},"output":{"value":"2026-11-21T02:33:49Z"}}`, nil},
		{"no object, bare", "harbour.tide", `{"tool":"harbour.tide","input":{},"output":"2026-11-21T02:33:49Z"}`, []string{"/output type"}},
		{"no object, wrapped and wrong", "harbour.tide", `{"tool":"harbour.tide","input":{},"output":{"value":7}}`, []string{"/output/value type"}},
		{"the tool's other name", "harbour_moor", `{"tool":"harbour.moor","input":{},"output":{"berth":"A"}}`, []string{"/tool const"}},
		{"another tool", "harbour.moor", `{"tool":"harbour.tide","input":{},"output":{"berth":"A"}}`, []string{"/tool const"}},
		{"tool is no string", "harbour.moor", `{"tool":null,"input":{},"output":{"berth":"A"}}`, []string{"/tool const"}},
		{"nothing", "harbour.moor", `{}`, []string{"/input required", "/output required", "/tool required"}},
		{"null for both", "harbour.moor", `{"tool":"harbour.moor","input":null,"output":null}`, []string{"/input type", "/output type"}},
		{"arrays", "harbour.moor", `{"tool":"harbour.moor","input":[],"output":[{}]}`, []string{"/input type", "/output type"}},
		{"everything", "harbour.moor", `{"tool":"x","input":{"length":"long","beam":1.5},"output":{"berth":7,"x":1}}`,
			[]string{"/input/beam type", "/input/length format", "/output/berth type", "/output/x additionalProperties", "/tool const"}},
		{"no object at all", "harbour.moor", `[]`, []string{" type"}},
		{"twice the same name", "harbour.moor", `{"tool":"harbour.moor","input":{},"input":{},"output":{"berth":"A"}}`, []string{"/input duplicate"}},
		{"not JSON", "harbour.moor", `{"tool":"harbour.moor"`, []string{"/tool syntax"}},
		{"empty", "harbour.moor", ``, []string{" syntax"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			io := r.Load(t, test.tool)
			checkViolations(t, io.ValidateIO([]byte(test.doc)), test.tool, test.want)
		})
	}
}

// TestValidateOne checks input and output on their own.
func TestValidateOne(t *testing.T) {
	t.Parallel()
	io := contracttest.Of(harbour(t, "length")).Load(t, "harbour.moor")
	checkViolations(t, io.ValidateInput([]byte(` {"length":"12"} `)), "harbour.moor", nil)
	checkViolations(t, io.ValidateInput([]byte(`{"beam":1}`)), "harbour.moor", []string{"/beam additionalProperties"})
	checkViolations(t, io.ValidateInput([]byte(`"{}"`)), "harbour.moor", []string{" type"})
	checkViolations(t, io.ValidateInput([]byte(`{"length":1e999}`)), "harbour.moor", []string{"/length range"})
	checkViolations(t, io.ValidateOutput([]byte(`{"berth":"A"}`)), "harbour.moor", nil)
	checkViolations(t, io.ValidateOutput([]byte(`{"berth":["A"]}`)), "harbour.moor", []string{"/berth type"})
}

func checkViolations(t *testing.T, err error, tool string, want []string) {
	t.Helper()
	if want == nil {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var invalid *contracttest.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("error is %T %v, want an *InvalidError", err, err)
	}
	var got []string
	for _, v := range invalid.Violations {
		got = append(got, v.Path+" "+v.Keyword)
	}
	if diff := cmp.Diff(want, got); diff != "" || invalid.Tool != tool {
		t.Errorf("tool %q, violations -want +got:\n%s", invalid.Tool, diff)
	}
	if !strings.Contains(err.Error(), invalid.Violations[0].Message) {
		t.Errorf("the text does not say what is wrong: %v", err)
	}
}

// TestFingerprintChanges swaps the catalog under the registry.
func TestFingerprintChanges(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[catalog.Catalog]
	r := contracttest.New(current.Load, contracttest.Options{})
	current.Store(harbour(t, "length"))
	before := r.Load(t, "harbour.moor")
	if err := before.ValidateInput([]byte(`{"beam":1}`)); err == nil {
		t.Fatal("an unknown field was admitted")
	}

	current.Store(current.Load().Only(func(*catalog.Tool) bool { return true })) // another catalog, nothing new
	if again := r.Load(t, "harbour.moor"); again.Input != before.Input {
		t.Error("the same fingerprint was compiled twice")
	}

	current.Store(harbour(t, "length", "beam"))
	after := r.Load(t, "harbour.moor")
	if err := after.ValidateInput([]byte(`{"beam":1}`)); err != nil || after.Fingerprint == before.Fingerprint {
		t.Errorf("the old schema is still in use: %v", err)
	}
	if err := before.ValidateInput([]byte(`{"length":1}`)); err != nil {
		t.Errorf("who holds the old one cannot use it any more: %v", err)
	}
}

// TestConcurrentUse asks from many goroutines while the catalog changes; each
// answer belongs to one of the catalogs, and nothing is compiled per caller.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	catalogs := []*catalog.Catalog{harbour(t, "length"), harbour(t, "length", "beam")}
	var current atomic.Pointer[catalog.Catalog]
	current.Store(catalogs[0])
	r := contracttest.New(current.Load, contracttest.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				if i == 0 {
					current.Store(catalogs[j%2])
				}
				name := []string{"harbour.moor", "harbour_tide"}[(i+j)%2]
				io, err := r.LoadToolIO(name)
				if err != nil {
					t.Error(err)
					return
				}
				if err := io.ValidateInput([]byte(`{"length":1}`)); err != nil {
					t.Error(err)
				}
				if _, err := r.LoadEnvelope(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
