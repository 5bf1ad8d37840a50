// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strconv"
	"strings"
	"testing"
)

// TestItemsSent: an error of a call that sends a stream says how many items went before, in every vocabulary, and brings it
// through another sidecar.
func TestItemsSent(t *testing.T) {
	t.Parallel()
	for _, sent := range []int{0, 3, 1000} {
		e := InvalidInput("a.b", true, Violation{Path: "/items/3/nonce", Keyword: "type", Message: "wanted string"})
		if strings.Contains(string(e.Data(About{})), "itemsSent") {
			t.Errorf("nothing was sent, and yet: %s", e.Data(About{}))
		}
		e.ItemsSent = &sent
		data := string(e.Data(About{}))
		if _, after, ok := strings.Cut(data, `"itemsSent":`); !ok || !strings.HasPrefix(after, strconv.Itoa(sent)+"}") {
			t.Errorf("data %s, want %d", data, sent)
		}
		back := FromConnect(ToConnect(e, About{}))
		if back.ItemsSent == nil || *back.ItemsSent != sent {
			t.Errorf("%d items: %+v comes back", sent, back)
		}
		if told := strings.Contains(e.ModelText(About{}), "Items sent before: "+strconv.Itoa(sent)+"."); told != (sent > 0) {
			t.Errorf("%d items: %s", sent, e.ModelText(About{}))
		}
	}
	for _, odd := range []string{"-1", "x", "99999999999"} {
		if e := new(Error); func() *int { e.readMeta(map[string]string{metaItemsSent: odd}); return e.ItemsSent }() != nil {
			t.Errorf("%s counts as %d", odd, *e.ItemsSent)
		}
	}
}
