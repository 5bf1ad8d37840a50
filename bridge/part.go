// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// inPages cuts a part of a list that comes in one piece into pages. key tells its
// entries apart.
//
// A page begins behind the last entry of the page before, wherever that stands by
// then; where it is gone, at its place.
func inPages[T proto.Message](key func(T) string, whole func(ctx context.Context) (page[T], *errmap.Error)) func(context.Context, *string, int) (page[T], *errmap.Error) {
	return func(ctx context.Context, inner *string, size int) (page[T], *errmap.Error) {
		out, err := whole(ctx)
		if err != nil {
			return page[T]{}, err
		}
		first := 0
		if inner != nil {
			first = behind(*inner, out.entries, key)
		}
		last := len(out.entries)
		if size < last-first {
			last = first + size
			next := strconv.Itoa(last) + ":" + entryDigest(key(out.entries[last-1]))
			out.next = &next
		}
		out.entries = out.entries[first:last]
		return out, nil
	}
}

// behind is where a list goes on: inner is the number of entries before, and the
// digest of the last of them.
func behind[T any](inner string, entries []T, key func(T) string) int {
	number, digest, _ := strings.Cut(inner, ":")
	place, err := strconv.Atoi(number)
	if err != nil {
		return 0 // it was sealed, and so is ours
	}
	isLast := func(e T) bool { return entryDigest(key(e)) == digest }
	if place > 0 && place <= len(entries) && isLast(entries[place-1]) {
		return place
	}
	if at := slices.IndexFunc(entries, isLast); at >= 0 {
		return at + 1
	}
	return min(max(place-1, 0), len(entries))
}

// digestBytes of a key's hash are enough to tell the entries of one list apart,
// and keep a cursor short whatever the key.
const digestBytes = 8

func entryDigest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:digestBytes])
}
