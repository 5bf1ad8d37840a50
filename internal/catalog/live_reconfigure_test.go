// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestReconfigureIsAllOrNothing changes sources and options together, with steps
// that fail in between.
func TestReconfigureIsAllOrNothing(t *testing.T) {
	t.Parallel()
	old, other := &stubSource{load: works("S/A", "S/B")}, &stubSource{load: fails("connection refused")}
	live := NewLive([]source.Source{old}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var told int
	defer live.OnChange(func(_, _ *Catalog) { told++ })()
	ends := func(why string, wantTold int, names ...string) {
		t.Helper()
		var got []string
		for _, tool := range live.Current().Tools() {
			got = append(got, tool.Name)
		}
		if !slices.Equal(got, names) || told != wantTold {
			t.Fatalf("%s: tools %v, want %v; told %d times, want %d", why, got, names, told, wantTold)
		}
	}
	before := live.Status()
	if err := live.Reconfigure(t.Context(), []source.Source{other}, BuildOptions{}); err == nil {
		t.Fatal("a source that fails is taken")
	}
	if err := live.Reconfigure(t.Context(), []source.Source{old}, BuildOptions{Selection: selection(t, []string{"nothing.*"}, nil)}); !errors.Is(err, ErrEmpty) {
		t.Fatalf("an empty catalog is taken: %v", err)
	}
	if after := live.Status(); after.Failures != 0 || after.Err != nil || after.Loads != before.Loads {
		t.Errorf("what was refused shows in the status: %+v", after)
	}
	ends("refused", 0, "s.a", "s.b")
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends("loaded again", 0, "s.a", "s.b")

	if err := live.Reconfigure(t.Context(), []source.Source{old}, BuildOptions{Selection: selection(t, nil, []string{"*/B"})}); err != nil {
		t.Fatal(err)
	}
	ends("excluded", 1, "s.a")
	other.set(works("S/C"))
	if err := live.Reconfigure(t.Context(), []source.Source{other}, BuildOptions{}); err != nil {
		t.Fatal(err)
	}
	ends("another source", 2, "s.c")
	other.set(works("S/C", "S/D"))
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends("the next load goes by the new plan", 3, "s.c", "s.d")
}

// TestReconfigureWhileOthersLoad is for the race detector.
func TestReconfigureWhileOthersLoad(t *testing.T) {
	t.Parallel()
	from := &stubSource{load: works("S/A", "S/B")}
	live := NewLive([]source.Source{from}, LiveOptions{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := errors.Join(live.Refresh(context.Background()), live.Reconfigure(context.Background(), []source.Source{from}, BuildOptions{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
