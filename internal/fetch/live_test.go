// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// serviceOf is a descriptor set with a service of one method.
func serviceOf(t *testing.T, method string) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/empty.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: &method, InputType: new(".google.protobuf.Empty"), OutputType: new(".google.protobuf.Empty")},
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestTheLastGoodCatalogStays while the server is broken in turn.
func TestTheLastGoodCatalogStays(t *testing.T) {
	t.Parallel()
	s := serve(t, tagged(`"1"`, serviceOf(t, "Open")))
	live := catalog.NewLive([]source.Source{s.source(t, "/shop.binpb", source.Limits{})}, catalog.LiveOptions{})
	has := func(name string) bool {
		_, ok := live.Current().Lookup(name)
		return ok
	}
	if err := live.Refresh(t.Context()); err != nil || !has("shop.open") {
		t.Fatalf("error %v", err)
	}
	first := live.Current()
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"a page":   plain([]byte("<html></html>")),
		"no tools": plain(setOf(t, "empty.proto")),
		"nothing":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s.now(answer)
		err := live.Refresh(t.Context())
		if err == nil || catalog.IsPermanent(err) || live.Current() != first {
			t.Errorf("%s: error %v, permanent %v", name, err, catalog.IsPermanent(err))
		}
	}
	s.now(tagged(`"1"`, serviceOf(t, "Open")))
	if err := live.Refresh(t.Context()); err != nil || live.Current() != first {
		t.Errorf("as before: error %v", err)
	}
	s.now(tagged(`"2"`, serviceOf(t, "Close")))
	if err := live.Refresh(t.Context()); err != nil || !has("shop.close") || has("shop.open") {
		t.Errorf("another version: error %v", err)
	}
	if status := live.Status(); !strings.HasPrefix(status.Sources[0].Name, "descriptor set https://127.0.0.1:") {
		t.Errorf("status %+v", status)
	}
	s.Close()
	var failed *source.FetchError
	if err := live.Refresh(t.Context()); !errors.As(err, &failed) || !has("shop.close") {
		t.Errorf("no server any more: error %v", err)
	}
}
