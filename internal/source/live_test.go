// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
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

// loaded is a catalog of sources that were loaded once, and whether it has a tool.
func loaded(t *testing.T, sources ...source.Source) (live *catalog.Live, has func(name string) bool) {
	t.Helper()
	live = catalog.NewLive(sources, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live, func(name string) bool {
		_, ok := live.Current().Lookup(name)
		return ok
	}
}

// away answers as a server that is broken.
func away(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

// without are options that leave a method out.
func without(t *testing.T, method string) catalog.BuildOptions {
	t.Helper()
	selection, err := catalog.NewSelection(nil, []string{method})
	if err != nil {
		t.Fatal(err)
	}
	return catalog.BuildOptions{Selection: selection}
}

// TestAServerThatIsAwayHoldsNothingUp: a changed configuration is used with what was fetched before, by new sources of the
// same references.
func TestAServerThatIsAwayHoldsNothingUp(t *testing.T) {
	t.Parallel()
	body := setWith(t, "shop", "Open", "Close")
	other := setWith(t, "other", "Ask")
	for _, tc := range []struct {
		name, path string
		answer     http.HandlerFunc
		answers    http.HandlerFunc // afterwards
		requests   int
	}{
		{"pinned", "/a#sha256=" + digestOf(body), plain(body), away, 1},
		{"with an ETag", "/a?b=c", tagged(`"1"`, body), tagged(`"1"`, body), 2},
		{"with an ETag, away", "/a?b=c", tagged(`"1"`, body), away, 2},
		{"without one, away", "/a", plain(body), away, 2},
		{"a page in its place", "/a", plain(body), plain([]byte("<html></html>")), 2},
	} {
		for kind, wrap := range map[string]func(source.Source) source.Source{
			"tools": func(s source.Source) source.Source { return s },
			"comments": func(s source.Source) source.Source {
				return source.NewCommented(source.NewDescriptors("memory", parsed(t, body)), nil, s)
			},
		} {
			t.Run(tc.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				s := serve(t, tc.answer)
				from := func() source.Source { return wrap(s.source(t, tc.path, source.Limits{})) }
				live, has := loaded(t, from())
				s.now(tc.answers)
				if err := live.Reconfigure(t.Context(), []source.Source{from()}, without(t, "*/Close")); err != nil || has("shop.close") || !has("shop.open") {
					t.Errorf("error %v", err)
				}
				if n := len(s.requests()); n != tc.requests {
					t.Errorf("%d requests, want %d", n, tc.requests)
				}
				s.now(plain(other))
				if err := live.Reconfigure(t.Context(), []source.Source{wrap(s.source(t, "/other", source.Limits{}))}, catalog.BuildOptions{}); err != nil {
					t.Errorf("another reference: error %v", err)
				}
				if kind == "tools" && (has("shop.open") || !has("other.ask")) {
					t.Error("another reference brings what an earlier one brought")
				}
			})
		}
	}
}

// TestAnotherSourceChangesMeanwhile: a local file is read again although the pinned content beside it cannot be fetched. Now it
// has a file that the content has too, so that nothing of the catalog in use can stay.
func TestAnotherSourceChangesMeanwhile(t *testing.T) {
	t.Parallel()
	body := setWith(t, "shop", "Open")
	s := serve(t, plain(body))
	path := filepath.Join(t.TempDir(), "local.binpb")
	write := func(raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alone := parsed(t, setWith(t, "local", "Ask"))
	alone.File = alone.File[1:]
	raw, err := proto.Marshal(alone)
	if err != nil {
		t.Fatal(err)
	}
	write(raw)
	live, has := loaded(t, s.source(t, "/a#sha256="+digestOf(body), source.Limits{}), source.NewDescriptorFile(path, source.Limits{}))
	s.now(away)
	write(setWith(t, "local", "Tell"))
	if err := live.Refresh(t.Context()); err != nil || !has("local.tell") || has("local.ask") || !has("shop.open") {
		t.Errorf("error %v", err)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// setWith is a descriptor set with a service of these methods, and with the file that it imports.
func setWith(t *testing.T, pkg string, methods ...string) []byte {
	t.Helper()
	service := &descriptorpb.ServiceDescriptorProto{Name: new(strings.ToUpper(pkg[:1]) + pkg[1:])}
	for _, m := range methods {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: &m, InputType: new(".google.protobuf.Empty"), OutputType: new(".google.protobuf.Empty"),
		})
	}
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(emptypb.File_google_protobuf_empty_proto), {
			Name: new(pkg + ".proto"), Package: new(pkg + ".v1"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/empty.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{service},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func parsed(t *testing.T, raw []byte) *descriptorpb.FileDescriptorSet {
	t.Helper()
	out := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheEndOfALoadHasACause: who set the time says what was too slow.
func TestTheEndOfALoadHasACause(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	})
	defer close(release)
	ctx, stop := context.WithCancelCause(t.Context())
	cause := errors.New("the command was too slow")
	go func() {
		<-asked
		stop(cause)
	}()
	if _, err := s.source(t, "/a", source.Limits{}).Load(ctx); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
	if _, err := s.source(t, "/a", source.Limits{}).Load(ctx); !errors.Is(err, cause) {
		t.Errorf("after the end: error %v, want %v", err, cause)
	}
}
