// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestVersionsOfOneService have names that tell them apart, whatever the order of the files.
func TestVersionsOfOneService(t *testing.T) {
	t.Parallel()
	of := func(pkg string, methods ...string) *descriptorpb.FileDescriptorProto {
		return rpcFile(pkg+".proto", pkg, methods...)
	}
	for _, tt := range []struct {
		name  string
		files []*descriptorpb.FileDescriptorProto
		want  []string
		warns int
	}{
		{
			"stable, beta, alpha",
			[]*descriptorpb.FileDescriptorProto{of("a.v1", "Shop/Get"), of("a.v1beta", "Shop/Get"), of("a.v1alpha", "Shop/Get")},
			[]string{"shop.get", "shop_v1alpha.get", "shop_v1beta.get"}, 2,
		},
		{
			"the higher stable one, though there is a later beta",
			[]*descriptorpb.FileDescriptorProto{of("a.v1", "Shop/Get"), of("a.v2", "Shop/Get"), of("a.v3beta1", "Shop/Get")},
			[]string{"shop.get", "shop_v1.get", "shop_v3beta1.get"}, 2,
		},
		{
			"no stable one",
			[]*descriptorpb.FileDescriptorProto{of("a.v1p1beta1", "Shop/Get"), of("a.v1p3beta1", "Shop/Get"), of("a.v1beta1", "Shop/Get")},
			[]string{"shop.get", "shop_v1beta1.get", "shop_v1p1beta1.get"}, 2,
		},
		{
			"what only the lower one has is understood without the version",
			[]*descriptorpb.FileDescriptorProto{of("a.v1", "ShopService/Get"), of("a.v1beta1", "ShopService/Get", "ShopService/Watch")},
			[]string{"shop.get (shop_service.get)", "shop_v1beta1.get", "shop_v1beta1.watch (shop.watch)"}, 1,
		},
		{
			"nothing clashes",
			[]*descriptorpb.FileDescriptorProto{of("a.v1", "Shop/Get"), of("a.v1beta1", "Shop/Watch")},
			[]string{"shop.get", "shop.watch"}, 0,
		},
		{
			"a version in the middle",
			[]*descriptorpb.FileDescriptorProto{of("ads.v19.services", "Shop/Get"), of("ads.v20.services", "Shop/Get")},
			[]string{"shop.get", "shop_v19.get"}, 1,
		},
		{
			"a version behind an underscore",
			[]*descriptorpb.FileDescriptorProto{of("jaeger.api_v2", "Query/Get"), of("jaeger.api_v3", "Query/Get")},
			[]string{"query.get", "query_v2.get"}, 1,
		},
		{
			"a version at the end of a word, and a segment below it",
			[]*descriptorpb.FileDescriptorProto{of("shopv1.core", "Shop/Get"), of("shopv2.core", "Shop/Get"), of("shopv3alpha.core", "Shop/Get", "Shop/Watch")},
			[]string{"shop.get", "shop_v1.get", "shop_v3alpha.get", "shop_v3alpha.watch (shop.watch)"}, 2,
		},
		{
			"a package without a version keeps its names",
			[]*descriptorpb.FileDescriptorProto{of("shop", "ShopService/Get"), of("shop.v2", "ShopService/Get"), of("shop.v3", "ShopService/Get")},
			[]string{"shop.get (shop_service.get)", "shop_v2.get", "shop_v3.get"}, 2,
		},
		{
			"versions in several forms",
			[]*descriptorpb.FileDescriptorProto{of("shop", "Shop/Get"), of("shop.v1", "Shop/Get"), of("shop_v2", "Shop/Get"), of("shopv3", "Shop/Get")},
			[]string{"shop.get", "shop_v1.get", "shop_v2.get", "shop_v3.get"}, 3,
		},
		{
			"words that end in a number are versions only where names clash",
			[]*descriptorpb.FileDescriptorProto{of("net.ipv4", "Routes/Get"), of("net.ipv6", "Routes/List")},
			[]string{"routes.get", "routes.list"}, 0,
		},
		{
			"beside another service of the name with the suffix",
			[]*descriptorpb.FileDescriptorProto{of("a.v1", "ShopService/Get"), of("a.v1beta1", "ShopService/Get"), of("b.v1", "Shop/Get")},
			[]string{"shop.get", "shop_service.get", "shop_v1beta1.get"}, 2,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				c, err := Build([]*source.Loaded{filesOf(tt.files...)}, BuildOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, aliased(c)); diff != "" {
					t.Error(diff)
				}
				if len(c.Warnings()) != tt.warns {
					t.Errorf("warnings: %v", c.Warnings())
				}
				slices.Reverse(tt.files)
			}
		})
	}
}

// TestOtherClashesStayErrors, also between services that have versions.
func TestOtherClashesStayErrors(t *testing.T) {
	t.Parallel()
	for _, files := range [][]*descriptorpb.FileDescriptorProto{
		{rpcFile("a.proto", "a.v1", "Shop/Get"), rpcFile("b.proto", "b.v1beta1", "Shop/Get")},
		{rpcFile("a.proto", "a", "Shop/Get"), rpcFile("b.proto", "b.v1", "Shop/Get")},
		{rpcFile("a.proto", "a.v1", "Shop/Get"), rpcFile("b.proto", "a.v1beta1", "Shop/Get"), rpcFile("c.proto", "c", "ShopV1beta1/Get")},
		{rpcFile("a.proto", "a.v1.x", "Shop/Get"), rpcFile("b.proto", "a.v2.y", "Shop/Get")},
	} {
		_, err := Build([]*source.Loaded{filesOf(files...)}, BuildOptions{})
		var fault *BuildError
		if !errors.As(err, &fault) || len(fault.Collisions) == 0 {
			t.Errorf("%v", err)
		}
	}
}
