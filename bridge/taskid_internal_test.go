// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// What a sealed task id says comes back, also from an id of an earlier release.
func TestSealedTaskIDs(t *testing.T) {
	t.Parallel()
	digest := []byte{0, 1, 2, 3, 4, 0}
	all := cmp.AllowUnexported(nativeResult{})
	for name, of := range map[string]nativeResult{
		"nothing":         {},
		"a digest":        {digest: digest},
		"all of it":       {digest: digest, isReduced: true},
		"a model's":       {digest: digest, isReduced: true, wanted: fit.Wanted{ForModel: true}},
		"a budget":        {digest: digest, isReduced: true, wanted: fit.Wanted{Budget: 128 << 20}},
		"a mask and more": {digest: digest, isReduced: true, wanted: fit.Wanted{Fields: "a,b\x00c", Budget: 300, ForModel: true}},
	} {
		id, got := parseTask(encodeTask("task-1", of))
		if diff := cmp.Diff(of, got, all); id != "task-1" || diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", name, id, diff)
		}
	}
	for old, want := range map[string]nativeResult{"task-1": {}, "task-1\x00" + string(digest): {digest: digest}, "task-1\x00abc": {}} {
		id, got := parseTask([]byte(old))
		if diff := cmp.Diff(want, got, all); id != "task-1" || diff != "" {
			t.Errorf("%q: %q (-want +got):\n%s", old, id, diff)
		}
	}
	long := nativeResult{digest: digest, isReduced: true, wanted: fit.Wanted{Fields: strings.Repeat("f", 1000), Budget: 300}}
	plain := encodeTask(strings.Repeat("i", 1024), long)
	if _, got := parseTask(plain); seal.SealedLen(len(plain)) > maxTaskID || !got.isMaskLost || got.wanted.Fields != "" || got.wanted.Budget != 300 {
		t.Errorf("a long mask: %d bytes, %+v", seal.SealedLen(len(plain)), got)
	}
}
