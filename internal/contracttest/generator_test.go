// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// textOf is the decoded value of a string id.
func textOf(t testing.TB, id jsonrpc.ID) string {
	t.Helper()
	text, ok := id.Text()
	if !ok {
		t.Fatalf("id %s is no string", id)
	}
	return text
}

// TestNewID is a UUIDv7 of now, as another implementation reads it.
func TestNewID(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMilli()
	text := textOf(t, contracttest.NewGenerator(contracttest.GeneratorOptions{}).NewID(""))
	after := time.Now().UnixMilli()
	id, err := uuid.Parse(text)
	if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 || id.String() != text {
		t.Fatalf("%s is no UUIDv7: %v", text, err)
	}
	if ms := int64(binary.BigEndian.Uint64(id[:8]) >> 16); ms < before || ms > after {
		t.Errorf("made at %d ms, not within [%d, %d]", ms, before, after)
	}
}

// TestNewIDOfType puts the entity type in front, whatever it is.
func TestNewIDOfType(t *testing.T) {
	t.Parallel()
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	tests := []struct{ name, entity, prefix string }{
		{"none", "", ""},
		{"usual", "call", "call_"},
		{"needs escapes", "a\"\\\n", "a\"\\\n_"},
		{"too long", strings.Repeat("x", 1<<20), strings.Repeat("x", 64) + "_"},
		{"too long, with a character across the bound", strings.Repeat("x", 62) + "€", strings.Repeat("x", 62) + "_"},
		{"too long, no UTF-8", strings.Repeat("\x80", 100), strings.Repeat("\ufffd", 64) + "_"},
		{"control characters", strings.Repeat("\x00", 64), strings.Repeat("\x00", 64) + "_"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := g.NewID(test.entity)
			prefix, rest := textOf(t, id)[:len(test.prefix)], textOf(t, id)[len(test.prefix):]
			if _, err := uuid.Parse(rest); err != nil || prefix != test.prefix {
				t.Errorf("id %s: %v", id, err)
			}
			if back, err := jsonrpc.ParseID(id.Raw()); err != nil || back != id {
				t.Errorf("id %s came back as %s: %v", id, back, err)
			}
		})
	}
}

// TestInjectedSource gives the same ids for the same clock and random bits.
func TestInjectedSource(t *testing.T) {
	t.Parallel()
	draw := func() []string {
		clock, random := time.UnixMilli(0x0190_0000_0001).Add(500*time.Microsecond), uint64(0)
		g := contracttest.NewGenerator(contracttest.GeneratorOptions{
			Now:    func() time.Time { return clock },
			Random: func() uint64 { random--; return random },
		})
		var out []string
		for range 2 {
			out = append(out, textOf(t, g.NewID("")))
		}
		clock = clock.Add(-time.Hour) // set back: ids go on
		out = append(out, textOf(t, g.NewID("")))
		clock = clock.Add(2 * time.Hour)
		return append(out, textOf(t, g.NewID("call")))
	}
	want := []string{
		"01900000-0001-7800-bfff-ffffffffffff", "01900000-0001-7801-bfff-fffffffffffe", "01900000-0001-7802-bfff-fffffffffffd", "call_01900036-ee81-7800-bfff-fffffffffffc",
	}
	if diff := cmp.Diff(want, draw()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(draw(), draw()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}

// TestClockBeforeItsEpoch must not reach into the version.
func TestClockBeforeItsEpoch(t *testing.T) {
	t.Parallel()
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{Now: func() time.Time { return time.Unix(-1, 999) }})
	if id, err := uuid.Parse(textOf(t, g.NewID(""))); err != nil || id.Version() != 7 {
		t.Errorf("%s: %v", id, err)
	}
}

// TestDeterministic ids are bare UUIDs of one sequence.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	for range 2 {
		g := contracttest.NewGenerator(contracttest.GeneratorOptions{Deterministic: true})
		got := []string{textOf(t, g.NewID("")), textOf(t, g.NewID("call")), textOf(t, g.NewID(""))}
		want := []string{"00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002", "00000000-0000-7000-8000-000000000003"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		request, err := g.NewRequest("m", nil)
		if err != nil || jsonrpc.Parse(contracttest.AppendTo(nil, request), jsonrpc.ProfileCanonicalUUID, jsonrpc.Limits{}).Fault != nil {
			t.Errorf("the profile for deterministic ids refuses %s: %v", request.ID, err)
		}
	}
}

// TestUniqueWithoutTimeAndRandom draws from 8 goroutines while the clock is stopped
// still and the random source is stuck: the generator alone keeps ids apart.
func TestUniqueWithoutTimeAndRandom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, deterministic := range []bool{false, true} {
			g := contracttest.NewGenerator(contracttest.GeneratorOptions{Deterministic: deterministic, Random: func() uint64 { return 7 }})
			if n := repetitions(draw(g, 8, 20_000)); n != 0 {
				t.Errorf("deterministic %v: %d ids were made twice", deterministic, n)
			}
		}
	})
}

// TestUnique draws as a sidecar does.
func TestUnique(t *testing.T) {
	t.Parallel()
	if n := repetitions(draw(contracttest.NewGenerator(contracttest.GeneratorOptions{}), 8, 20_000)); n != 0 {
		t.Errorf("%d ids were made twice", n)
	}
}

// TestSortByAge: a later id of one generator is greater.
func TestSortByAge(t *testing.T) {
	t.Parallel()
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	last := ""
	for range 10_000 {
		next := textOf(t, g.NewID("call"))
		if next <= last {
			t.Fatalf("%s came after %s", next, last)
		}
		last = next
	}
}

// draw makes ids in several goroutines and returns their bytes.
func draw(g *contracttest.Generator, goroutines, each int) [][16]byte {
	out := make([][16]byte, goroutines*each)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for j := range each {
				text, _ := g.NewID("").Text()
				compact := make([]byte, 0, 32)
				for k := range len(text) {
					if text[k] != '-' {
						compact = append(compact, text[k])
					}
				}
				_, _ = hex.Decode(out[i*each+j][:], compact)
			}
		})
	}
	all.Wait()
	return out
}

// repetitions sorts ids and counts those that stand beside their equal. An id
// that could not be read is zero, and counts from the second on.
func repetitions(ids [][16]byte) int {
	slices.SortFunc(ids, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	n := 0
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			n++
		}
	}
	return n
}

func BenchmarkNewID(b *testing.B) {
	for _, entity := range []string{"", "call"} {
		b.Run("type="+entity, func(b *testing.B) {
			g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
			b.ReportAllocs()
			for b.Loop() {
				g.NewID(entity)
			}
		})
	}
}

func BenchmarkNewRequest(b *testing.B) {
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	params := []byte(`{"name":"fleet.get_vehicle","arguments":{"id":"7"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.NewRequest("tools/call", params); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTenMillionIDs is the contract's promise, in full: ten million draws
// from 8 goroutines, and none twice.
func BenchmarkTenMillionIDs(b *testing.B) {
	for b.Loop() {
		ids := draw(contracttest.NewGenerator(contracttest.GeneratorOptions{}), 8, 10_000_000/8)
		b.StopTimer()
		if n := repetitions(ids); n != 0 {
			b.Fatalf("%d ids were made twice", n)
		}
		b.StartTimer()
	}
}
