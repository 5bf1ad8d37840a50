// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// sized is a catalog of so many services with so many methods each.
func sized(t *testing.T, services, methods int, o catalog.BuildOptions) (*catalog.Catalog, error) {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("sized.proto"), Package: proto.String("sized.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Empty")}},
	}
	var names []string
	for s := range services {
		service := &descriptorpb.ServiceDescriptorProto{Name: proto.String(fmt.Sprintf("Storehouse%03d", s))}
		names = append(names, "sized.v1."+service.GetName())
		for m := range methods {
			service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
				Name:      proto.String([]string{"List", "Get", "Create", "Delete"}[m%4] + fmt.Sprintf("Thing%d", m)),
				InputType: proto.String(".sized.v1.Empty"), OutputType: proto.String(".sized.v1.Empty"),
			})
		}
		file.Service = append(file.Service, service)
	}
	load, err := source.NewDescriptors("sized", &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}, names...).Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Build([]*source.Loaded{load}, o)
}

func TestCompactCatalog(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		services, methods, atMost int
		profile                   schema.Profile
	}{
		{1, 1, 1900, schema.ProfileMCP}, {3, 8, 1900, schema.ProfileMCP}, {150, 8, 1900, schema.ProfileMCP},
		{3, 8, 1000, schema.ProfileStrict}, {150, 8, 1000, schema.ProfileStrict},
	} {
		full, err := sized(t, tc.services, tc.methods, catalog.BuildOptions{Profile: tc.profile})
		if err != nil {
			t.Fatal(err)
		}
		c, err := full.Compact()
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := full.Compact(); again != c {
			t.Error("it is made twice")
		}
		if len(c.Tools()) != 3 || c.Fingerprint() == full.Fingerprint() {
			t.Errorf("%d tools", len(c.Tools()))
		}
		search, ok := c.Lookup(catalog.MCPName(catalog.SearchName))
		if !ok {
			t.Fatal("no search")
		}
		text := search.Description
		if len(text) > tc.atMost || !utf8.ValidString(text) {
			t.Errorf("%d services: the description has %d bytes", tc.services, len(text))
		}
		for _, want := range []string{fmt.Sprint(tc.services * tc.methods), "Storehouse000 (" + fmt.Sprint(tc.methods) + "): "} {
			if !strings.Contains(text, want) {
				t.Errorf("%d services: the description has no %q: %s", tc.services, want, text)
			}
		}
		if more := tc.services > 100; strings.Contains(text, "more modules") != more {
			t.Errorf("%d services: %s", tc.services, text)
		}
		for _, tool := range c.Tools() {
			if catalog.CompactOf(tool.Name) != tool.Compact || catalog.CompactOf(tool.MCPName) != tool.Compact || tool.Compact == catalog.NotCompact {
				t.Errorf("%s is of another kind than its name says", tool.Name)
			}
			if !json.Valid(tool.Input.Advertised()) {
				t.Errorf("%s: %s", tool.Name, tool.Input.Advertised())
			}
		}
		call, _ := c.Lookup(catalog.CallName)
		if call.Annotations.Destructive == nil || !*call.Annotations.Destructive || call.Annotations.ReadOnly != nil {
			t.Errorf("call is shown as %+v", call.Annotations)
		}
	}
}

// No tool may have a name of the compact catalog, unless there is none.
func TestNamesOfTheCompactCatalogAreReserved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"catalog.search", "catalog.describe", "catalog.call"} {
		overlay := []catalog.Override{{Match: "sized.v1.Storehouse000/ListThing0", Options: &configv1.ToolOptions{Name: name}}}
		_, err := sized(t, 1, 2, catalog.BuildOptions{Compact: true, Overlay: overlay})
		var broken *catalog.BuildError
		if !errors.As(err, &broken) || len(broken.Problems) != 1 || !strings.Contains(err.Error(), "--catalog-mode full") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := sized(t, 1, 2, catalog.BuildOptions{Overlay: overlay}); err != nil {
			t.Errorf("%s, without a compact catalog: %v", name, err)
		}
		hidden := true
		overlay[0].Options.Hidden = &hidden
		if _, err := sized(t, 1, 2, catalog.BuildOptions{Compact: true, Overlay: overlay}); err != nil {
			t.Errorf("%s, hidden: %v", name, err)
		}
	}
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ description, deprecated, want string }{
		{"Returns a thing. It may be old.", "", "Returns a thing."},
		{"Is it there? Perhaps.", "", "Is it there?"},
		{"Deprecated since 2.\n\nReturns a thing.", "2", "Deprecated: Returns a thing."},
		{"", "", "Title."},
		{strings.Repeat("word ", 60), "", strings.Repeat("word ", 22) + "word…"},
	} {
		tool := &catalog.Tool{Title: "Title", Description: tc.description, Metadata: catalog.Metadata{DeprecatedIn: tc.deprecated}}
		if got := tool.Summary(); got != tc.want || utf8.RuneCountInString(got) > catalog.MaxSummary {
			t.Errorf("%q: %q, want %q", tc.description, got, tc.want)
		}
	}
}

// What is made of a catalog for programs is made once, and another view of the catalog has another.
func TestWhatProgramsKnowOfACatalogIsMadeOnce(t *testing.T) {
	t.Parallel()
	c, err := sized(t, 1, 2, catalog.BuildOptions{Compact: true})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	fresh := func() any { made++; return made }
	view := c.Only(func(*catalog.Tool) bool { return true })
	if a, b, other := c.Programs(fresh), c.Programs(fresh), view.Programs(fresh); a != 1 || b != 1 || other != 2 {
		t.Errorf("made %v, %v and %v", a, b, other)
	}
}
