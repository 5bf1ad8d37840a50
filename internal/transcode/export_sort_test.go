// SPDX-License-Identifier: Apache-2.0

package transcode

import "slices"

// SortedKeys is what sortEntries makes of keys.
func SortedKeys(keys []string) ([]string, bool) {
	var b []byte
	var entries []mapEntry
	for _, key := range keys {
		start := int32(len(b))
		b = append(b, key...)
		entries = append(entries, mapEntry{number: prefix([]byte(key)), start: start, end: int32(len(b))})
	}
	ok := sortEntries(entries, b, true)
	var out []string
	for e := range slices.Values(entries) {
		out = append(out, string(b[e.start:e.end]))
	}
	return out, ok
}
