// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/types/descriptorpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// commented is rpcFile with a comment on each of its services.
func commented(f *descriptorpb.FileDescriptorProto, comment string) *descriptorpb.FileDescriptorProto {
	f.SourceCodeInfo = &descriptorpb.SourceCodeInfo{}
	for i := range f.GetService() {
		f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
			Path: []int32{6, int32(i)}, Span: []int32{int32(i), 0, 0}, LeadingComments: new(comment),
		})
	}
	return f
}

// A client tells sidecars apart by what their services say, and reads what they are for.
func TestAbout(t *testing.T) {
	t.Parallel()
	orders := func() *descriptorpb.FileDescriptorProto {
		return commented(rpcFile("a.proto", "shop.orders.v1", "OrderService/Get"), " Takes orders.  And ships them.\n\n Ask for prices first.\n")
	}
	stock := func(pkg string) *descriptorpb.FileDescriptorProto {
		return commented(rpcFile("b.proto", pkg, "Stock/List"), " Counts what is left.\n")
	}
	const both = "OrderService: Takes orders.\nStock: Counts what is left."
	for name, tc := range map[string]struct {
		files        []*descriptorpb.FileDescriptorProto
		native       *outriggerv1.ServerDescription
		exclude      []string
		about        About
		instructions string
	}{
		"one service": {
			files: []*descriptorpb.FileDescriptorProto{orders()},
			about: About{"shop.orders.v1.OrderService", "Order", "v1"}, instructions: "Takes orders.  And ships them.\n\nAsk for prices first.",
		},
		"two services of one package around them": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("shop.stock.v2")}, about: About{Name: "shop"}, instructions: both,
		},
		"two services of one version": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("shop.stock.v1")}, about: About{Name: "shop", Version: "v1"}, instructions: both,
		},
		"two services that have nothing in common": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("store")}, about: About{}, instructions: both,
		},
		"packages that begin alike": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("shopping")}, about: About{}, instructions: both,
		},
		"a service without tools does not count": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("store")}, exclude: []string{"store.*"},
			about: About{"shop.orders.v1.OrderService", "Order", "v1"}, instructions: "Takes orders.  And ships them.\n\nAsk for prices first.",
		},
		"a service that every API has does not count": {
			files: []*descriptorpb.FileDescriptorProto{orders(), stock("google.iam.v1")},
			about: About{"shop.orders.v1.OrderService", "Order", "v1"}, instructions: "Takes orders.  And ships them.\n\nAsk for prices first.",
		},
		"a native backend's own words": {
			files: []*descriptorpb.FileDescriptorProto{orders()}, native: &outriggerv1.ServerDescription{Name: "desk", Version: "3.1.0", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{}, Instructions: "Ring first."},
			about: About{Name: "desk", Version: "3.1.0"}, instructions: "Ring first.",
		},
		"a service without a comment": {
			files: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "shop.v1", "Till/Open")}, about: About{"shop.v1.Till", "Till", "v1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loads := []*source.Loaded{filesOf(tc.files...)}
			if tc.native != nil {
				loads = append(loads, &source.Loaded{Source: "native", Native: &source.Native{Description: tc.native}})
			}
			c := mustBuild(t, BuildOptions{Selection: selection(t, nil, tc.exclude)}, loads...)
			if got := c.About(); got != tc.about {
				t.Errorf("about %+v, want %+v", got, tc.about)
			}
			if got := c.Instructions(); got != tc.instructions {
				t.Errorf("instructions %q, want %q", got, tc.instructions)
			}
		})
	}
}

// What models read in every session is bounded, whatever services there are, and a caller who may use some of them reads of those.
func TestInstructionsAreBounded(t *testing.T) {
	t.Parallel()
	var files []*descriptorpb.FileDescriptorProto
	for i := range 100 {
		files = append(files, commented(rpcFile(fmt.Sprintf("%d.proto", i), fmt.Sprintf("shop.v%d", i+1), "Orders/Get"), strings.Repeat(" é", 60)+".\n"))
	}
	c := mustBuild(t, BuildOptions{}, filesOf(files...))
	text := c.Instructions()
	if n := utf8.RuneCountInString(text); n > maxInstructions+len("\nAnd 100 more services.") || !strings.HasSuffix(text, "more services.") {
		t.Errorf("%d characters: %q", n, text)
	}
	one := c.Only(func(t *Tool) bool { return t.Method.Service == "shop.v7.Orders" })
	if got, want := one.Instructions(), strings.TrimSpace(strings.Repeat(" é", 60))+"."; got != want {
		t.Errorf("for a caller of one service: %q, want %q", got, want)
	}
	long := mustBuild(t, BuildOptions{}, filesOf(commented(rpcFile("a.proto", "shop", "Orders/Get"), strings.Repeat("word ", 10_000))))
	if n := utf8.RuneCountInString(long.Instructions()); n > maxInstructions || n < maxInstructions/2 {
		t.Errorf("a long comment gives %d characters", n)
	}
}
