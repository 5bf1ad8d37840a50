// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

type toolMap map[string]*catalog.Tool

func (m toolMap) Lookup(name string) (*catalog.Tool, bool) {
	t, ok := m[name]
	return t, ok
}

func anyTool(name, title string) *catalog.Tool {
	open := schema.Fixed(&schema.Schema{Canonical: json.RawMessage(`{"type":"object","title":"` + title + `"}`)})
	return &catalog.Tool{Name: name, Input: open, Output: open}
}

// TestCacheIsBounded keeps the tools that were asked for last.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	tools := toolMap{}
	for i := range 10 {
		name := fmt.Sprintf("a.t%d", i)
		tools[name] = anyTool(name, "f")
	}
	r := New(tools, Options{MaxTools: 3})
	load := func(i int) *schema.Validator {
		io, err := r.LoadToolIO(fmt.Sprintf("a.t%d", i))
		if err != nil {
			t.Fatal(err)
		}
		return io.Input
	}
	first := load(0)
	for i := 1; i < 10; i++ {
		load(i)
		if load(0) != first {
			t.Fatalf("after %d others, the tool that is asked for all the time was compiled again", i)
		}
		if n := r.cache.size(); n > 3 {
			t.Fatalf("%d tools are kept, want at most 3", n)
		}
	}
	for i := 1; i <= 3; i++ {
		load(i)
	}
	if load(0) == first {
		t.Error("the tool that was not asked for the longest was kept")
	}
}

// TestCacheForgets what is gone or has changed, when told and when asked.
func TestCacheForgets(t *testing.T) {
	t.Parallel()
	tools := toolMap{"a.same": anyTool("a.same", "1"), "a.new": anyTool("a.new", "1"), "a.gone": anyTool("a.gone", "1"), "a.asked": anyTool("a.asked", "1")}
	r := New(tools, Options{})
	for name := range tools {
		if _, err := r.LoadToolIO(name); err != nil {
			t.Fatal(err)
		}
	}
	delete(tools, "a.asked")
	if _, err := r.LoadToolIO("a.asked"); err == nil || r.cache.size() != 3 {
		t.Errorf("%v, %d tools are kept, want 3", err, r.cache.size())
	}
	delete(tools, "a.gone")
	tools["a.new"] = anyTool("a.new", "2")
	r.Prune()
	if r.cache.size() != 1 {
		t.Errorf("%d tools are kept, want the one that is still the same", r.cache.size())
	}
}

// TestCompiledOnce although many ask at the same time.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	r := New(toolMap{"a.b": anyTool("a.b", "1")}, Options{})
	var all sync.WaitGroup
	got := make([]*schema.Validator, 16)
	for i := range got {
		all.Go(func() {
			if io, err := r.LoadToolIO("a.b"); err == nil {
				got[i] = io.Input
			}
		})
	}
	all.Wait()
	for _, v := range got {
		if v == nil || v != got[0] {
			t.Fatal("not everybody got the same schema")
		}
	}
}
