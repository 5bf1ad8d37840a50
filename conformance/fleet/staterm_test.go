// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestWhatARemovalMeans: it does what `sidecar state rm` says that it does.
func TestWhatARemovalMeans(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	a := f.all[0]
	f.fill(t)
	remove := func(kind, key string) {
		t.Helper()
		if out := f.stateCommand(t, "rm", kind, key, "--yes"); out.code != 0 {
			t.Fatalf("rm %s: exit code %d\n%s%s", kind, out.code, out.stdout, out.stderr)
		}
	}
	task := f.only(t, "tasks")
	remove("tasks", task)
	if _, err := a.get(t, task); connect.CodeOf(err) != connect.CodeInvalidArgument && connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a task that was removed: %v", err)
	}
	remove("registrations", f.only(t, "registrations"))
	has(t, a.Server, "shop.peek", "")
	f.shop.mu.Lock()
	if ended := f.shop.ended["Look secret-argument"]; ended != 0 {
		t.Errorf("the work of a task that was removed was cancelled %d times", ended)
	}
	f.shop.mu.Unlock()

	second := a.begin(t, "shop.look", "of the first")
	f.awaitCall(t, "Look of the first", 1)
	first := f.only(t, "owners")
	f.join(t)
	testkit.Until(t, "both replicas are owners", func() bool { return len(f.list(t, "owners").Entries) == 2 })
	// Another replica takes over once it has held its own lease for as long as a lease lasts.
	time.Sleep(3 * time.Second)
	remove("owners", first)
	f.awaitCall(t, "Look of the first", 2)
	testkit.Until(t, "the call of the former owner is cancelled", func() bool {
		f.shop.mu.Lock()
		defer f.shop.mu.Unlock()
		return f.shop.ended["Look of the first"] == 1
	})
	testkit.Until(t, "the replica has a lease again", func() bool { return len(f.list(t, "owners").Entries) == 2 })
	f.shop.letGo()
	f.all[1].ends(t, second)
}

// TestARemovalComparesRevisions: what was changed since it was looked at stays.
func TestARemovalComparesRevisions(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	sealer := newSealer(t)
	o := state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer}
	c := open(t, o)
	b := c.Bucket(things())
	healthy(t, c)
	revision, err := b.Create(t.Context(), "k", []byte("one"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	i := inspect(t, o)
	e, err := i.Get(t.Context(), "things", "k")
	if err != nil || string(e.Value) != "one" || e.Revision != revision || time.Until(e.Expires) < 50*time.Minute {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := b.Update(t.Context(), "k", []byte("two"), revision, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := i.Remove(t.Context(), "things", "k", revision); !errors.Is(err, state.ErrConflict) {
		t.Errorf("removed what was changed meanwhile: %v", err)
	}
	if e, err = i.Get(t.Context(), "things", "k"); err != nil {
		t.Fatal(err)
	}
	if err := i.Remove(t.Context(), "things", "k", e.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Get(t.Context(), "things", "k"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
	if err := i.Remove(t.Context(), "things", "k", e.Revision); !errors.Is(err, state.ErrConflict) {
		t.Errorf("removed twice: %v", err)
	}
	for key := range 5 {
		if _, err := b.Create(t.Context(), string(rune('a'+key)), nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	var keys string
	left, err := i.Scan(t.Context(), "things", func(e state.Item) bool {
		keys += e.Key
		return len(keys) < 3
	})
	if err != nil || keys != "abc" || left != 2 {
		t.Errorf("scanned %q and left %d: %v", keys, left, err)
	}
}
