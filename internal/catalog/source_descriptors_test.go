// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

func TestDescriptorSetsAsToolsWriteThem(t *testing.T) {
	t.Parallel()
	want := namesOf(garden(t))
	t.Run("buf image, gzipped", func(t *testing.T) {
		t.Parallel()
		loaded := loadFile(t, bufImage)
		if !slices.Contains(loaded.Imported, "depot/v1/depot.proto") || slices.Contains(loaded.Imported, "garden/v1/garden.proto") {
			t.Errorf("imported files %v", loaded.Imported)
		}
		c := mustBuild(t, BuildOptions{Selection: selection(t, []string{"depot.v1.Depot", "garden.*"}, nil)}, loaded)
		if _, ok := c.Lookup("depot.fetch"); !ok {
			t.Error("an imported service that is included by name is missing")
		}
	})
	t.Run("protoc with imports", func(t *testing.T) {
		t.Parallel()
		// protoc marks no imports, so that their services show.
		c := mustBuild(t, BuildOptions{}, loadFile(t, protocSet))
		if got := namesOf(c); !slices.Equal(got, slices.Sorted(slices.Values(append(slices.Clone(want), "depot.fetch")))) {
			t.Errorf("tools %v", got)
		}
	})
	t.Run("protoc without imports", func(t *testing.T) {
		t.Parallel()
		_, err := Build([]*source.Loaded{loadFile(t, withoutDeps)}, BuildOptions{})
		for _, word := range []string{"garden/v1/garden.proto", "depot/v1/depot.proto is not in the set", "--include_imports"} {
			if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), word) {
				t.Errorf("error %v, want ErrEmpty and %q", err, word)
			}
		}
	})
}

func TestDescriptorFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	full, err := os.ReadFile(protocSet)
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	two := marshal(t, &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a"), rpcFile("b.proto", "b")}})
	for _, tc := range []struct {
		name   string
		body   []byte
		limits source.Limits
		want   string
	}{
		{"empty", nil, source.Limits{}, "the file is empty"},
		{"cut short", full[:len(full)-10], source.Limits{}, "or it is truncated: at byte"},
		{"JSON", []byte(` {"file": []}`), source.Limits{}, "looks like JSON"},
		{"source", []byte("syntax = \"proto3\";\n"), source.Limits{}, "looks like a .proto source"},
		{"noise", []byte{0xff, 0xff, 0xff}, source.Limits{}, "not a FileDescriptorSet"},
		{"another message", []byte{0x10, 0x01}, source.Limits{}, "holds no files"},
		{"only bad files", appendBytes(nil, 1, []byte{0xff}), source.Limits{}, "no file of the set can be used; the first one: file 1"},
		{"too large", full, source.Limits{MaxBytes: 1000}, "more than 1000 bytes"},
		{"too large once unpacked", bomb.Bytes(), source.Limits{MaxBytes: 10_000}, "more than 10000 bytes"},
		{"broken gzip", []byte{0x1f, 0x8b, 0x00}, source.Limits{}, "gzip"},
		{"too many files", two, source.Limits{MaxFiles: 1}, "more than 1 files"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "set.binpb")
			if err := os.WriteFile(path, tc.body, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := source.NewDescriptorFile(path, tc.limits).Load(t.Context())
			got := asError[*source.Error](t, err)
			if !got.Permanent || got.Source != "descriptor set "+path || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v (permanent %v), want %q", err, got.Permanent, tc.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if _, err := source.NewDescriptorFile("testdata/none", source.Limits{}).Load(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		_, err := source.NewDescriptorFile("testdata", source.Limits{}).Load(t.Context())
		if err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := source.NewDescriptorFile(protocSet, source.Limits{}).Load(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestABadFileCostsItselfAndNotTheSet(t *testing.T) {
	t.Parallel()
	good := rpcFile("good.proto", "good", "S/M")
	uses := rpcFile("uses.proto", "uses", "U/M")
	uses.Dependency = []string{"set.proto"}
	chain := rpcFile("chain.proto", "chain", "C/M")
	chain.Dependency = []string{"uses.proto"}
	loop := rpcFile("loop.proto", "loop", "L/M")
	loop.Dependency = []string{"loop2.proto"}
	loop2 := rpcFile("loop2.proto", "loop2")
	loop2.Dependency = []string{"loop.proto"}
	dangling := rpcFile("dangling.proto", "dangling", "D/M")
	dangling.Service[0].Method[0].InputType = new(".nowhere.In")
	clash := rpcFile("clash.proto", "good", "S/M")
	// A message set is a relic that the Go runtime refuses, and with it the file that declares it.
	relic := &descriptorpb.FileDescriptorProto{
		Name: new("set.proto"), Package: new("relic"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:           new("Set"),
			Options:        &descriptorpb.MessageOptions{MessageSetWireFormat: new(true)},
			ExtensionRange: []*descriptorpb.DescriptorProto_ExtensionRange{{Start: proto.Int32(4), End: proto.Int32(1<<31 - 1)}},
		}},
	}
	raw := appendBytes(nil, 1, []byte{0x0a, 0xff})
	raw = append(raw, marshal(t, &descriptorpb.FileDescriptorSet{
		File: []*descriptorpb.FileDescriptorProto{relic, uses, chain, loop, loop2, dangling, clash, good, {}},
	})...)
	loaded, err := source.ParseDescriptorSet("test", raw, source.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := mustBuild(t, BuildOptions{}, loaded)
	if got := namesOf(c); !slices.Equal(got, []string{"s.m"}) {
		t.Errorf("tools %v, want the good file's", got)
	}
	for _, want := range []string{
		"test: file 1 of the set omitted", "test: file 10 of the set omitted: it has no name",
		"set.proto: file omitted", "legacy",
		"uses.proto: file omitted: it imports set.proto",
		"chain.proto: file omitted: it imports uses.proto",
		"chain.C: service omitted: its file chain.proto does not link",
		"imports itself", "dangling.proto: file omitted",
	} {
		if !hasWarning(c, want) {
			t.Errorf("no warning %q among:\n%v", want, c.Warnings())
		}
	}
	if hasWarning(c, "clash.proto") == hasWarning(c, "good.proto") {
		t.Errorf("of two files that declare the same, one must be left out: %v", c.Warnings())
	}
}

func TestSeveralSourcesMeet(t *testing.T) {
	t.Parallel()
	bare, full := loadFile(t, protocSet), loadFile(t, bufImage)
	bare.Source, full.Source = "bare", "full"
	bare.Services = []string{"garden.v1.GardenKeeper"}
	c := mustBuild(t, BuildOptions{}, bare, full)
	tool := toolOf(t, c, "garden_keeper.talk")
	if tool.Description != "Talk to plants." || tool.Method.Source != "bare" {
		t.Errorf("description %q from %s, want the comments of one source and the service of the other", tool.Description, tool.Method.Source)
	}
	if hasWarning(c, "whose copy is used") {
		t.Errorf("equal files are said to differ: %v", c.Warnings())
	}
	old, changed := filesOf(rpcFile("a.proto", "a", "S/Old")), filesOf(rpcFile("a.proto", "a", "S/New"))
	old.Source, changed.Source = "first", "second"
	c = mustBuild(t, BuildOptions{}, old, changed)
	if !slices.Equal(namesOf(c), []string{"s.old"}) || !hasWarning(c, "a.proto: second and first have different copies; the copy of the latter is used") {
		t.Errorf("tools %v, warnings %v", namesOf(c), c.Warnings())
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// FuzzDescriptorSet feeds hostile sets through decoding, linking and building. Nothing may panic, and what comes out
// must keep the catalog's promises.
func FuzzDescriptorSet(f *testing.F) {
	alone, err := os.ReadFile(withoutDeps)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(alone)
	f.Add([]byte{0x0a, 0xff})
	f.Add(marshal(f, &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		rpcFile("a.proto", "a", "S/M", "S/m"), rpcFile("b.proto", "b", "S/GetX"),
	}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		loaded, err := source.ParseDescriptorSet("fuzz", raw, source.Limits{MaxFiles: 100})
		if err != nil {
			return
		}
		c, err := Build([]*source.Loaded{loaded}, BuildOptions{})
		if err != nil {
			return
		}
		for _, tool := range c.Tools() {
			if !IsCanonicalName(tool.Name) || tool.Title == "" || tool.Description == "" || len(tool.MCPName) > 64 {
				t.Errorf("tool %+v", tool)
			}
			if found, ok := c.Lookup(tool.MCPName); !ok || found != tool {
				t.Errorf("Lookup(%s) does not find its tool", tool.MCPName)
			}
		}
	})
}
