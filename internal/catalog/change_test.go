// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

func TestSince(t *testing.T) {
	t.Parallel()
	shop := func(methods ...string) *Catalog {
		return mustBuild(t, BuildOptions{}, &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", methods...)}})
	}
	described := mustBuild(t, BuildOptions{}, &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{
		withComment(rpcFile("a.proto", "a", "S/B", "S/C"), "Another text."),
	}})
	tests := []struct {
		name                    string
		old, now                *Catalog
		added, changed, removed []string
	}{
		{"from nothing", nil, shop("S/B", "S/A"), []string{"s.a", "s.b"}, nil, nil},
		{"the same, built again", shop("S/A", "S/B"), shop("S/B", "S/A"), nil, nil, nil},
		{"more", shop("S/B"), shop("S/A", "S/B", "S/C"), []string{"s.a", "s.c"}, nil, nil},
		{"less", shop("S/A", "S/B", "S/C"), shop("S/B"), nil, nil, []string{"s.a", "s.c"}},
		{"all others", shop("S/A", "S/C"), shop("S/B", "S/D"), []string{"s.b", "s.d"}, nil, []string{"s.a", "s.c"}},
		{"other words and the same schema", shop("S/A", "S/B", "S/C"), described, nil, []string{"s.b"}, []string{"s.a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.now.Since(tt.old)
			for what, diff := range map[string]string{
				"added":   cmp.Diff(tt.added, toolNames(got.Added)),
				"changed": cmp.Diff(tt.changed, toolNames(got.Changed)),
				"removed": cmp.Diff(tt.removed, got.Removed),
			} {
				if diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// withComment describes the file's first method.
func withComment(f *descriptorpb.FileDescriptorProto, text string) *descriptorpb.FileDescriptorProto {
	f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
		{Path: []int32{6, 0, 2, 0}, Span: []int32{0, 0, 0}, LeadingComments: new(text)},
	}}
	return f
}

func toolNames(tools []*Tool) (out []string) {
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}
