// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// TestAnInbox: items come in order, an end comes behind them, and too many bytes end the call at once.
func TestAnInbox(t *testing.T) {
	t.Parallel()
	var all inboxes
	key := follower{1, "s7"}
	in := all.add(key, 10)
	if all.add(key, 10) != nil {
		t.Error("an id has two inboxes")
	}
	take := func(want string) {
		t.Helper()
		if got, err := in.next(t.Context()); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	in.put([][]byte{[]byte("1"), []byte("2")}, false)
	take("1")
	in.put([][]byte{[]byte("3")}, false)
	in.stop(errmap.New(errmap.InvalidParams))
	in.put([][]byte{[]byte("4")}, true) // behind the end
	take("2")
	take("3")
	if _, err := in.next(t.Context()); !errors.Is(err, errmap.New(errmap.InvalidParams)) {
		t.Errorf("behind the items: %v", err)
	}
	all.remove(key)
	in = all.add(key, 10)
	in.put([][]byte{[]byte("12345"), []byte("67890"), []byte("1")}, true)
	if _, err := in.next(t.Context()); !errors.Is(err, errmap.New(errmap.PayloadTooLarge)) || !strings.Contains(err.Error(), "10 bytes") {
		t.Errorf("over the bound: %v", err)
	}
	all.remove(key)
	in = all.add(key, 10)
	in.put([][]byte{[]byte("1")}, true)
	in.stop(errmap.New(errmap.InvalidParams)) // the last item has come
	take("1")
	if _, err := in.next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}
