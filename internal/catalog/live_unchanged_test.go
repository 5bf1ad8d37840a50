// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// bearer is a backend that reflects, declares tools and wrote a descriptor set.
type bearer struct {
	peer   *scripted
	native *source.Native
	path   string
}

func newBearer(t *testing.T) (*bearer, []source.Source) {
	t.Helper()
	b := &bearer{
		peer:   telling(rpcFile("a.proto", "a", "S/M")),
		native: &source.Native{Description: &outriggerv1.ServerDescription{Name: "shop"}, Tools: []*outriggerv1.Tool{nativeTool("buy")}},
		path:   filepath.Join(t.TempDir(), "set.binpb"),
	}
	b.write(t, rpcFile("f.proto", "f", "F/M"))
	url := b.peer.serve(t, reflectionV1)
	return b, []source.Source{
		source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}),
		source.NewNative("native", func(context.Context) (*source.Native, error) { return b.native, nil }),
		source.NewDescriptorFile(b.path, source.Limits{}),
		source.NewDescriptors("memory", &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{rpcFile("m.proto", "m", "Memory/M")}}),
	}
}

// reflects replaces what the server reflects.
func (b *bearer) reflects(files ...*descriptorpb.FileDescriptorProto) {
	now := telling(files...)
	b.peer.mu.Lock()
	defer b.peer.mu.Unlock()
	b.peer.services, b.peer.symbols, b.peer.files = now.services, now.symbols, now.files
}

func (b *bearer) write(t *testing.T, files ...*descriptorpb.FileDescriptorProto) {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsUnchangedIsNotBuiltAgain looks for the very same catalog, and for
// another one after a change of any source.
func TestWhatIsUnchangedIsNotBuiltAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *bearer)
		want   string // a tool that is new
	}{
		{"a method", func(_ *testing.T, b *bearer) { b.reflects(rpcFile("a.proto", "a", "S/M", "S/N")) }, "s.n"},
		{"a file", func(_ *testing.T, b *bearer) {
			b.reflects(rpcFile("a.proto", "a", "S/M"), rpcFile("b.proto", "b", "T/M"))
		}, "t.m"},
		{"a tool", func(_ *testing.T, b *bearer) {
			b.native = &source.Native{Description: b.native.Description, Tools: append(slices.Clone(b.native.Tools), nativeTool("sell"))}
		}, "shop.sell"},
		{"the set", func(t *testing.T, b *bearer) {
			b.write(t, rpcFile("f.proto", "f", "F/M"), rpcFile("g.proto", "g", "U/M"))
		}, "u.m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, sources := newBearer(t)
			changes := 0
			live := NewLive(sources, LiveOptions{})
			live.OnChange(func(_, _ *Catalog) { changes++ })
			refresh := func() *Catalog {
				t.Helper()
				if err := live.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				return live.Current()
			}
			first, status := refresh(), live.Status()
			if again := refresh(); again != first {
				t.Error("a catalog was built again of what had not changed")
			}
			if again := refresh(); again != first || changes != 1 {
				t.Errorf("the third load built another catalog, or %d changes were told", changes)
			}
			same := cmpopts.IgnoreFields(SourceStatus{}, "At", "Took")
			if now := live.Status(); !now.Built.Equal(status.Built) || !now.Loaded.After(status.Loaded) {
				t.Errorf("loaded at %v and built at %v, want a later time than %v and the same as %v", now.Loaded, now.Built, status.Loaded, status.Built)
			}
			if diff := cmp.Diff(status.Sources, live.Status().Sources, same); diff != "" || live.Status().Loads != 3 {
				t.Errorf("%d loads, status of the sources (-first +third):\n%s", live.Status().Loads, diff)
			}
			tc.change(t, b)
			changed := refresh()
			if _, ok := changed.Lookup(tc.want); !ok || changes != 2 || len(changed.Tools()) != len(first.Tools())+1 {
				t.Errorf("after the change: %v, %d changes told", namesOf(changed), changes)
			}
			if again := refresh(); again != changed {
				t.Error("what had changed once is built again and again")
			}
		})
	}
}

// A failure in between neither loses the catalog nor makes anything build it
// again, and the status is clean afterwards.
func TestAFailureBetweenTwoLoadsOfTheSame(t *testing.T) {
	t.Parallel()
	b, sources := newBearer(t)
	live := NewLive(sources, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := live.Current()
	b.reflects()
	if err := live.Refresh(t.Context()); err == nil || live.Status().Failures != 1 {
		t.Fatalf("a server that lists nothing loads: %v", err)
	}
	b.reflects(rpcFile("a.proto", "a", "S/M"))
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := live.Status(); live.Current() != first || got.Why != "" || got.Failures != 0 {
		t.Errorf("after the failure: another catalog, or the status says %q", got.Why)
	}
}

// Other options make another catalog of the same files.
func TestReconfiguringBuildsAgain(t *testing.T) {
	t.Parallel()
	_, sources := newBearer(t)
	live := NewLive(sources, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(live.Current().Tools())
	if err := live.Reconfigure(t.Context(), sources, BuildOptions{Selection: selection(t, nil, []string{"a.S"})}); err != nil {
		t.Fatal(err)
	}
	if got := len(live.Current().Tools()); got != before-1 {
		t.Errorf("%d tools, want one less than %d", got, before)
	}
	narrow := live.Current()
	if err := live.Refresh(t.Context()); err != nil || live.Current() != narrow {
		t.Errorf("the load after it: %v, or another catalog", err)
	}
}

// A source that cannot tell builds with those that can.
func TestASourceThatCannotTell(t *testing.T) {
	t.Parallel()
	_, sources := newBearer(t)
	stub := &stubSource{load: works("T/M")}
	live := NewLive(append(sources, stub), LiveOptions{})
	for range 3 {
		before := live.Current()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if live.Current() == before || len(live.Current().Tools()) < 4 {
			t.Errorf("the catalog in use is the same, or has only %v", namesOf(live.Current()))
		}
	}
}

// TestWhatWasLoadedIsGoneWhenOthersAreTold: what learns of the first catalog gives memory back, so that descriptors as they
// were loaded must not be held any more.
func TestWhatWasLoadedIsGoneWhenOthersAreTold(t *testing.T) {
	t.Parallel()
	var held weak.Pointer[descriptorpb.FileDescriptorProto]
	from := &stubSource{load: func() (*source.Loaded, error) {
		f := rpcFile("a.proto", "a", "S/M")
		held = weak.Make(f)
		return &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{f}, Revision: &source.Revision{}}, nil
	}}
	live := NewLive([]source.Source{from}, LiveOptions{})
	told := false
	defer live.OnChange(func(_, _ *Catalog) {
		told = true
		runtime.GC()
		if held.Value() != nil {
			t.Error("what was loaded is still held")
		}
	})()
	if err := live.Refresh(t.Context()); err != nil || !told {
		t.Fatalf("error %v, told %t", err, told)
	}
}
