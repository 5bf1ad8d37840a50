// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/descriptorpb"
)

// TestALazySchemaIsTheDerivedOne in both forms, from many goroutines at once.
func TestALazySchemaIsTheDerivedOne(t *testing.T) {
	t.Parallel()
	md := (&descriptorpb.FileDescriptorProto{}).ProtoReflect().Descriptor()
	for _, dir := range []Direction{Input, Output} {
		want, err := Derive(md, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		lazy := Defer(md, dir, &Options{}, [32]byte{}, NewRoom(1<<20))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if string(lazy.Canonical()) != string(want.Canonical) || string(lazy.Advertised()) != string(want.Advertised) {
					t.Error("it is another schema")
				}
			})
		}
		all.Wait()
		if left := lazy.room.left.Load(); left != 1<<20-int64(len(want.Advertised)) {
			t.Errorf("%d bytes of room are left, its text has %d", left, len(want.Advertised))
		}
	}
}

// TestWhatFindsNoRoomIsDerivedAgain and is the same each time.
func TestWhatFindsNoRoomIsDerivedAgain(t *testing.T) {
	t.Parallel()
	made := 0
	lazy := func(room *Room) *Lazy {
		return DeferAs(func(Part, *Sight) *Schema { made++; return &Schema{Advertised: json.RawMessage(`{"type":"object"}`)} }, false, [32]byte{}, room)
	}
	for _, tt := range []struct {
		room *Room
		want int
	}{{NewRoom(17), 1}, {NewRoom(16), 3}, {nil, 3}} {
		made = 0
		l := lazy(tt.room)
		for range 3 {
			if string(l.Advertised()) != `{"type":"object"}` || !l.IsSet() {
				t.Error("it is another schema")
			}
		}
		if made != tt.want {
			t.Errorf("made %d times, want %d", made, tt.want)
		}
	}
	if new(Lazy).IsSet() || Fixed(&Schema{}).IsSet() || (*Lazy)(nil).IsSet() || len(new(Lazy).Advertised()) > 0 {
		t.Error("nothing is a schema")
	}
	if Fixed(&Schema{}).Digest() == Fixed(&Schema{Canonical: json.RawMessage(`{}`)}).Digest() {
		t.Error("two schemas have one digest")
	}
}
