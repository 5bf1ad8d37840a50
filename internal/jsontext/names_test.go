// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"fmt"
	"strings"
	"testing"
)

// TestDuplicateNames has one name twice, in every form in which a name is read
// another way: short and long, with escapes, with space before the colon, at the
// end of the document, and behind so many others that they are hashed.
func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	forms := map[string]func(name string) string{
		"plain":   func(name string) string { return `"` + name + `":` },
		"spaced":  func(name string) string { return `"` + name + `" : ` },
		"escaped": func(name string) string { return fmt.Sprintf(`"\u%04x%s":`, name[0], name[1:]) },
		"tail":    func(name string) string { return fmt.Sprintf(`"%s\u%04x":`, name[:len(name)-1], name[len(name)-1]) },
	}
	for length := 1; length <= 18; length++ {
		name := "abcdefghijklmnopqrstuvwxyz"[:length]
		for _, fillers := range []int{0, 1, 10, 11, 12, 13, 14, 60, 70} {
			var others strings.Builder
			for i := range fillers {
				fmt.Fprintf(&others, `"f%d":0,`, i)
			}
			for first, one := range forms {
				for second, two := range forms {
					for _, end := range []string{`}`, `,"a long name behind all others":"and a long value"}`} {
						for _, doc := range []string{
							`{` + others.String() + one(name) + `1,` + two(name) + `2` + end,
							`{` + one(name) + `1,` + others.String() + two(name) + `2` + end,
						} {
							f := Check([]byte(doc), 64)
							if f == nil || !strings.Contains(f.Reason, "appears twice") {
								t.Fatalf("%s and %s, %d others: %v for %s", first, second, fillers, f, doc)
							}
						}
					}
				}
			}
		}
	}
}

// TestNamesThatDiffer are all taken: names that are prefixes of one another, or
// have the same bit, or are the same in different objects.
func TestNamesThatDiffer(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 8, 12, 13, 14, 200} {
		var prefixes, numbered []string
		for i := range count {
			prefixes = append(prefixes, `"`+strings.Repeat("x", i)+`":{"x":1,"xx":2}`)
			numbered = append(numbered, fmt.Sprintf(`"%d":[{"%d":null}]`, i, i))
		}
		for _, members := range [][]string{prefixes, numbered} {
			doc := `{` + strings.Join(members, ",") + `}`
			if f := Check([]byte(doc), 64); f != nil {
				t.Errorf("%d names: %s in %.100s", count, f.Reason, doc)
			}
		}
	}
}
