// SPDX-License-Identifier: Apache-2.0

package task

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// What a sealed task id says comes back, also from an id of an earlier release.
func TestSealedTaskIDs(t *testing.T) {
	t.Parallel()
	digest := []byte{0, 1, 2, 3, 4, 0}
	for name, of := range map[string]NativeResult{
		"nothing":         {},
		"a digest":        {Digest: digest},
		"all of it":       {Digest: digest, IsReduced: true},
		"a model's":       {Digest: digest, IsReduced: true, Wanted: content.Wanted{ForModel: true}},
		"a budget":        {Digest: digest, IsReduced: true, Wanted: content.Wanted{Budget: 128 << 20}},
		"an address":      {Address: "10.0.0.1:50051"},
		"an address too":  {Address: "[::1]:50051", Digest: digest, IsReduced: true, Wanted: content.Wanted{Fields: "a"}},
		"a mask and more": {Digest: digest, IsReduced: true, Wanted: content.Wanted{Fields: "a,b\x00c", Budget: 300, ForModel: true}},
	} {
		id, got := parseNative(encodeNative("task-1", &of))
		if diff := cmp.Diff(of, got); id != "task-1" || diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", name, id, diff)
		}
	}
	for old, want := range map[string]NativeResult{"task-1": {}, "task-1\x00" + string(digest): {Digest: digest}, "task-1\x00abc": {}} {
		id, got := parseNative([]byte(old))
		if diff := cmp.Diff(want, got); id != "task-1" || diff != "" {
			t.Errorf("%q: %q (-want +got):\n%s", old, id, diff)
		}
	}
	long := NativeResult{Digest: digest, IsReduced: true, Wanted: content.Wanted{Fields: strings.Repeat("f", 1000), Budget: 300}}
	plain := encodeNative(strings.Repeat("i", 1024), &long)
	if _, got := parseNative(plain); keys.SealedLen(len(plain)) > maxID || !got.IsMaskLost || got.Wanted.Fields != "" || got.Wanted.Budget != 300 {
		t.Errorf("a long mask: %d bytes, %+v", keys.SealedLen(len(plain)), got)
	}
}
