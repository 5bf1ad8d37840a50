// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// boundTool is a tool as a sidecar lists it that made it of an RPC.
func boundTool(name, service, method string, change ...func(*outriggerv1.Tool)) *outriggerv1.Tool {
	return nativeTool(name, append(change, func(d *outriggerv1.Tool) {
		d.McpName = strings.ReplaceAll(name, ".", "_")
		d.Binding = &outriggerv1.ToolBinding{Service: service, Method: method}
	})...)
}

// behindSidecar is what a sidecar brings that is before a.S and a.T: what it
// reflects, and what its tool API says.
func behindSidecar(tools ...*outriggerv1.Tool) []*source.Loaded {
	reflected := filesOf(rpcFile("a.proto", "a", "S/One", "S/Two", "T/Hidden"))
	reflected.Services, reflected.Reflected = []string{"a.S", "a.T"}, true
	said := nativeLoad("sidecar", tools...)
	said.Native.Description.ProtocolVersions = []string{"2026-07-28"}
	return []*source.Loaded{reflected, said}
}

// What a sidecar reflects, it has made tools of as its operator wants them: under
// other names, without some, with more than one for an RPC.
func TestASidecarBehindMakesTheTools(t *testing.T) {
	t.Parallel()
	loads := behindSidecar(boundTool("s.one", "a.S", "One"), boundTool("s.other", "a.S", "Two"), boundTool("s.again", "a.S", "Two"))
	c := mustBuild(t, BuildOptions{}, loads...)
	if got := namesOf(c); !slices.Equal(got, []string{"s.again", "s.one", "s.other"}) {
		t.Errorf("tools %v", got)
	}
	for _, tool := range c.Tools() {
		if !tool.Native {
			t.Errorf("%s is made of a reflected RPC", tool.Name)
		}
	}
	if got := c.Services(); len(got) != 1 || got[0].Name != "a.S" || len(got[0].Tools) != 2 || len(c.All()) != 3 {
		t.Errorf("services %v, %d tools", got, len(c.All()))
	}
	for procedure, want := range map[string]string{"/a.S/One": "s.one", "/a.S/Two": "s.again", "/a.T/Hidden": ""} {
		rpc, ok := c.ByProcedure(procedure)
		if ok != (want != "") || ok && (rpc.Name != want || rpc.Native || rpc.In == nil) {
			t.Errorf("typed callers find %v at %s, want %q", rpc, procedure, want)
		}
	}
	if _, err := c.Files().FindDescriptorByName("a.S"); err != nil {
		t.Errorf("its descriptors are not known any more: %v", err)
	}
}

// Typed callers are held to what a tool of the same RPC is held to.
func TestTheGateIsOnBothWays(t *testing.T) {
	t.Parallel()
	marked := func(d *outriggerv1.Tool) { d.Metadata = &outriggerv1.ToolMetadata{Destructive: true} }
	timed := func(d *outriggerv1.Tool) {
		d.Execution = &outriggerv1.ToolExecution{Timeout: durationpb.New(time.Second)}
	}
	loads := func() []*source.Loaded {
		return behindSidecar(boundTool("s.one", "a.S", "One", timed), boundTool("s.two", "a.S", "Two"), boundTool("s.wipe", "a.S", "Two", marked))
	}
	c := mustBuild(t, BuildOptions{}, loads()...)
	one, _ := c.ByProcedure("/a.S/One")
	two, _ := c.ByProcedure("/a.S/Two")
	if one.Metadata.Destructive || one.Timeout != time.Second || two.Name != "s.two" || !two.Metadata.Destructive || !*two.Annotations.Destructive {
		t.Errorf("got %+v and %+v", one, two)
	}
	if toolOf(t, c, "s.two").Metadata.Destructive {
		t.Error("the listed tool is marked, which its sidecar did not do")
	}
	hidden := BuildOptions{Overlay: []Override{{Match: "s.one", Options: &configv1.ToolOptions{Hidden: proto.Bool(true)}}}, Selection: selection(t, nil, []string{"a.S/Two"})}
	if _, err := Build(loads(), hidden); !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v, want nothing left", err)
	}
	hidden.Selection = nil
	c = mustBuild(t, hidden, loads()...)
	if _, ok := c.ByProcedure("/a.S/One"); ok {
		t.Error("typed callers find what is hidden")
	}
}

// A backend that speaks the tool API beside its RPCs, and no MCP, is no sidecar.
func TestABackendWithBothKeepsBoth(t *testing.T) {
	t.Parallel()
	loads := behindSidecar(nativeTool("draw"))
	loads[1].Native.Description.ProtocolVersions = nil
	if got := namesOf(mustBuild(t, BuildOptions{}, loads...)); !slices.Equal(got, []string{"s.one", "s.two", "sidecar.draw", "t.hidden"}) {
		t.Errorf("tools %v", got)
	}
	loads = behindSidecar(boundTool("s.one", "a.S", "One"))
	loads[0].Reflected = false // an operator's own file
	_, err := Build(loads, BuildOptions{})
	var fault *BuildError
	if !errors.As(err, &fault) || len(fault.Collisions) != 1 {
		t.Errorf("got %v, want a collision of what the file and the sidecar say", err)
	}
}

// Globs and the overlay name RPCs, whatever makes tools of them.
func TestARPCBehindASidecarIsStillMeant(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		include, exclude []string
		want             []string
	}{
		{"all", nil, nil, []string{"s.one", "s.two", "t.three"}},
		{"a service", []string{"a.S"}, nil, []string{"s.one", "s.two"}},
		{"services", []string{"a.*"}, nil, []string{"s.one", "s.two", "t.three"}},
		{"methods", []string{"a.S/*"}, nil, []string{"s.one", "s.two"}},
		{"a path", []string{"/a.S/Two"}, nil, []string{"s.two"}},
		{"without a service", nil, []string{"a.S"}, []string{"t.three"}},
		{"without a method", nil, []string{"*.S/One"}, []string{"s.two", "t.three"}},
		{"by name", nil, []string{"s.*"}, []string{"t.three"}},
		{"by the sidecar", []string{"sidecar/s.*"}, nil, []string{"s.one", "s.two"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			loads := behindSidecar(boundTool("s.one", "a.S", "One"), boundTool("s.two", "a.S", "Two"), boundTool("t.three", "a.T", "Three"))
			c := mustBuild(t, BuildOptions{Selection: selection(t, tc.include, tc.exclude)}, loads...)
			if got := namesOf(c); !slices.Equal(got, tc.want) {
				t.Errorf("tools %v, want %v", got, tc.want)
			}
		})
	}
	c := mustBuild(t, BuildOptions{Overlay: []Override{{Match: "a.S/One", Options: &configv1.ToolOptions{Title: "The one"}}}},
		behindSidecar(boundTool("s.one", "a.S", "One"), boundTool("s.two", "a.S", "Two"))...)
	if got := toolOf(t, c, "s.one").Title; got != "The one" || len(c.Warnings()) != 0 {
		t.Errorf("title %q, warnings %v", got, c.Warnings())
	}
}

func TestADeprecationIsSaidOnce(t *testing.T) {
	t.Parallel()
	c := mustBuild(t, BuildOptions{}, behindSidecar(boundTool("s.one", "a.S", "One", func(d *outriggerv1.Tool) {
		d.Description = "Deprecated since 2.\n\nDoes one."
		d.Metadata = &outriggerv1.ToolMetadata{DeprecatedIn: "2"}
	}))...)
	if got := toolOf(t, c, "s.one").Description; got != "Deprecated since 2.\n\nDoes one." {
		t.Errorf("description %q", got)
	}
}
