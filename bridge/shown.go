// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"sync"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

const (
	// maxItemsShown is how many items of a stream are kept for its operator, and maxItemShown how many bytes of each.
	maxItemsShown, maxItemShown = 64, 4 << 10
)

// shownItems are the last items of a stream that an operator called in the console, while the call runs. Nil keeps none.
type shownItems struct {
	mu    sync.Mutex
	count uint64
	// last has item n at n-1, modulo its length; what it points to does not change.
	last [maxItemsShown]*adminv1.StreamItem
}

// add keeps an item, in place of the oldest one where there is no room.
func (s *shownItems) add(json []byte) {
	if s == nil {
		return
	}
	text := strings.ToValidUTF8(string(json[:min(len(json), maxItemShown)]), "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[s.count%maxItemsShown] = &adminv1.StreamItem{Number: s.count + 1, Json: text, Size: uint64(len(json))}
	s.count++
}

// since returns the items after a number that are kept, the oldest first, and how many are not.
func (s *shownItems) since(number uint64) (items []*adminv1.StreamItem, omitted uint64) {
	if s == nil {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number > s.count {
		number = 0 // of another call
	}
	from := max(number, s.count-min(s.count, maxItemsShown))
	for n := from; n < s.count; n++ {
		items = append(items, s.last[n%maxItemsShown])
	}
	return items, from - number
}
