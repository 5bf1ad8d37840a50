// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Large messages share buffers between calls, and no call sees another's bytes.
func TestLargeMessagesHaveBuffersOfTheirOwn(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Leaf")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 6 {
				text := strings.Repeat(fmt.Sprintf("%d.%d ", i, k), (3<<20>>(k%3))/4)
				doc := []byte(`{"name":"` + text + `"}`)
				wire, err := m.ToWire(nil, doc)
				if err != nil || bytes.Count(wire, []byte(text)) != 1 {
					t.Errorf("%d bytes to %d of wire: %v", len(doc), len(wire), err)
					return
				}
				back, err := m.ToJSON(nil, wire)
				if err != nil || !bytes.Contains(back, []byte(text)) {
					t.Errorf("%d bytes of wire to %d: %v", len(wire), len(back), err)
				}
			}
		})
	}
	wg.Wait()
}

// A large message that is refused gives its turn and its buffer back, however many are.
func TestRefusedLargeMessagesGiveTheirTurnBack(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Leaf")
	text := strings.Repeat("x", 2<<20)
	for range 2*runtime.GOMAXPROCS(0) + 1 {
		if _, err := m.ToWire(nil, []byte(`{"name":"`+text+`","name":1}`)); err == nil {
			t.Fatal("taken")
		}
		if _, err := m.ToJSON(nil, append([]byte{0x0a, 0xff, 0xff, 0xff, 0x7f}, text...)); err == nil {
			t.Fatal("written")
		}
	}
	if _, err := m.ToWire(nil, []byte(`{"name":"`+text+`"}`)); err != nil {
		t.Error(err)
	}
}

// The entries of a map come in the order of their keys' bytes, also where keys are alike for eight bytes, and a key that
// is there twice is left to the general engine.
func TestMapKeysThatAreAlike(t *testing.T) {
	t.Parallel()
	for n := range 60 {
		keys := []string{"", "\x00", "a", "a\x00", "alikealik", "alikealike", "alikealike\x00", "alikealikf", "alikeali"}
		for i := range n {
			keys = append(keys, fmt.Sprintf("alike%05d", i%40)[:5+i%6]+fmt.Sprint(i))
		}
		rand.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
		checkOrder(t, keys)
	}
}

func checkOrder(t *testing.T, keys []string) {
	t.Helper()
	want := slices.Sorted(slices.Values(keys))
	distinct := len(slices.Compact(slices.Clone(want))) == len(want)
	got, ok := transcode.SortedKeys(keys)
	if ok != distinct || ok && !slices.Equal(got, want) {
		t.Errorf("%q: %q, %v; want %v", keys, got, ok, distinct)
	}
	if _, ok := transcode.SortedKeys(append(keys, keys[0])); ok {
		t.Errorf("%q and %q again: taken", keys, keys[0])
	}
}

// Large messages that are wrong are judged in turns too: the general engine holds many times their memory.
func TestLargeWrongMessagesTakeTurns(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Leaf")
	doc := []byte(`{"name":"` + strings.Repeat("x", 2<<20) + `","unknown":1}`)
	release := transcode.OccupyTurns()
	judged := make(chan error)
	go func() {
		_, err := m.ToWire(make([]byte, 0, len(doc)), doc) // with room, so that the plan itself takes no turn
		judged <- err
	}()
	select {
	case <-judged:
		t.Error("judged without a turn")
		release()
		return
	case <-time.After(time.Second): // many times what it takes
	}
	release()
	if err := <-judged; err == nil {
		t.Error("taken")
	}
}
