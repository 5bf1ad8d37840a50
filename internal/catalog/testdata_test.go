// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/descriptorpb"
)

//go:generate testdata/build.sh

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The descriptor sets under testdata; build.sh says how they are made.
const (
	bufImage    = "testdata/garden-buf.binpb.gz"
	protocSet   = "testdata/garden-protoc.binpb"
	withoutDeps = "testdata/garden-alone.binpb"
)

// loadFile loads a descriptor set that must be readable.
func loadFile(t *testing.T, path string) *source.Loaded {
	t.Helper()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatalf("load %s: %v", path, err)
	}
	return loaded
}

// mustBuild builds a catalog that must come out.
func mustBuild(t *testing.T, o BuildOptions, loads ...*source.Loaded) *Catalog {
	t.Helper()
	c, err := Build(loads, o)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return c
}

// garden is the catalog of the buf image.
func garden(t *testing.T) *Catalog {
	t.Helper()
	return mustBuild(t, BuildOptions{}, loadFile(t, bufImage))
}

// toolOf finds a tool that must be there.
func toolOf(t *testing.T, c *Catalog, name string) *Tool {
	t.Helper()
	tool, ok := c.Lookup(name)
	if !ok {
		t.Fatalf("there is no tool %s among %v", name, namesOf(c))
	}
	return tool
}

func namesOf(c *Catalog) []string {
	var out []string
	for _, t := range c.Tools() {
		out = append(out, t.Name)
	}
	return out
}

// selection compiles globs that are well-formed.
func selection(t *testing.T, include, exclude []string) *Selection {
	t.Helper()
	s, err := NewSelection(include, exclude)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rpcFile is a file with the given services, written "Service/Method", each from the message In to the message Out.
func rpcFile(path, pkg string, methods ...string) *descriptorpb.FileDescriptorProto {
	f := &descriptorpb.FileDescriptorProto{
		Name: new(path), Package: new(pkg), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("In")}, {Name: new("Out")}},
	}
	byName := map[string]*descriptorpb.ServiceDescriptorProto{}
	for _, m := range methods {
		service, method, _ := cutLast(m)
		s := byName[service]
		if s == nil {
			s = &descriptorpb.ServiceDescriptorProto{Name: new(service)}
			byName[service] = s
			f.Service = append(f.Service, s)
		}
		s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{
			Name: new(method), InputType: new("." + pkg + ".In"), OutputType: new("." + pkg + ".Out"),
		})
	}
	return f
}

func cutLast(s string) (before, after string, found bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func filesOf(files ...*descriptorpb.FileDescriptorProto) *source.Loaded {
	return &source.Loaded{Source: "test", Files: files, Static: true}
}

// asError is errors.As with the target as result.
func asError[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	if !errors.As(err, &target) {
		t.Fatalf("error is %T %v, want a %T", err, err, target)
	}
	return target
}
