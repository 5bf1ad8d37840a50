// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// catalogOf has a tool for each of the given methods, with the text as its
// description.
func catalogOf(t interface{ Fatal(args ...any) }, methods map[int]string) *catalog.Catalog {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"),
		MessageType:    []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service:        []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S")}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{},
	}
	for n := range 10 {
		text, ok := methods[n]
		if !ok {
			continue
		}
		at := int32(len(file.GetService()[0].GetMethod()))
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(fmt.Sprintf("M%d", n)), InputType: proto.String(".a.M"), OutputType: proto.String(".a.M"),
		})
		file.SourceCodeInfo.Location = append(file.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
			Path: []int32{6, 0, 2, at}, Span: []int32{0, 0, 0}, LeadingComments: proto.String(text),
		})
	}
	cat, err := catalog.Build([]*source.Loaded{{Source: "test", Files: []*descriptorpb.FileDescriptorProto{file}}}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// TestAListingIsAsIfItWereRenderedWhole changes a catalog at will: tools come,
// go and change. The listing that takes from the one before what has not changed
// is the one that takes nothing, and takes everything that it could.
func TestAListingIsAsIfItWereRenderedWhole(t *testing.T) {
	t.Parallel()
	forms := map[string]entryForm{"canonical": appendCanonicalEntry, "modern": appendMCPTool, "legacy": appendLegacyTool}
	rapid.Check(t, func(t *rapid.T) {
		slots := map[string]*atomic.Pointer[listing]{"canonical": {}, "modern": {}, "legacy": {}}
		before := map[int]string{}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			methods := rapid.MapOfN(rapid.IntRange(0, 9), rapid.SampledFrom([]string{"One.", "Two."}), 1, 10).Draw(t, "methods")
			cat := catalogOf(t, methods)
			for name, one := range forms {
				rendered := map[string]bool{}
				got := listed(slots[name], cat, func(dst []byte, tool *catalog.Tool, form catalog.ListForm) []byte {
					rendered[tool.Name] = true
					return one(dst, tool, form)
				})
				want := listed(&atomic.Pointer[listing]{}, cat, one)
				if !bytes.Equal(got.text, want.text) || !slices.Equal(got.ends, want.ends) {
					t.Fatalf("%s: %s", name, got.text)
				}
				if room := cap(got.text) - len(got.text); room > len(got.text)/4 && room > 1<<10 {
					t.Fatalf("%s: %d bytes are kept for nothing beside %d", name, room, len(got.text))
				}
				for _, tool := range got.tools {
					var n int
					if _, err := fmt.Sscanf(tool.Name, "s.m%d", &n); err != nil {
						t.Fatal(err)
					}
					isTaken := !rendered[tool.Name]
					if isSame := before[n] == methods[n]; isTaken != isSame {
						t.Fatalf("%s: %s was the same: %v, was taken: %v", name, tool.Name, isSame, isTaken)
					}
				}
				if again := listed(slots[name], cat, one); again != got {
					t.Fatal("a listing of the same catalog is rendered again")
				}
			}
			before = methods
		}
	})
}

// Pages hold what the whole listing holds, with no comma too many or too few.
func TestPagesOfAListing(t *testing.T) {
	t.Parallel()
	l := listed(&atomic.Pointer[listing]{}, catalogOf(t, map[int]string{1: "One.", 2: "Two.", 3: "Three."}), func(dst []byte, tool *catalog.Tool, _ catalog.ListForm) []byte {
		return append(dst, "\n\""+tool.Name+"\""...)
	})
	for _, tt := range []struct {
		first, next int
		tail, want  string
	}{
		{0, 3, `]}`, `{"tools":["s.m1","s.m2","s.m3"]}`},
		{0, 2, `],"nextCursor":"c"}`, `{"tools":["s.m1","s.m2"],"nextCursor":"c"}`},
		{2, 3, " ] } ", `{"tools":["s.m3"]}`},
		{3, 3, `]}`, `{"tools":[]}`},
	} {
		call := &exchange{in: &Inbound{Message: &jsonrpc.Message{}}, resp: &bridge.Response{First: tt.first, Next: tt.next}}
		if _, err := call.list(l, []byte(tt.tail)); err != nil {
			t.Fatal(err)
		}
		if got := string(call.reply.Bytes()); got != `{"jsonrpc":"2.0","id":null,"result":`+tt.want+`}` {
			t.Errorf("from %d to %d: %s", tt.first, tt.next, got)
		}
	}
}
