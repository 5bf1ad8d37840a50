// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"strconv"
	"testing"
)

// note is an item about a subject, or about nothing. Its text is its state and takes memory. Subjects in capitals do not count
// against limits.
type note struct{ about, text string }

func (n note) key() key { return key{name: n.about} }

func (n note) weight() (items, bytes int) {
	if n.about != "" && n.about[0] < 'a' {
		return 0, 0
	}
	return 1, len(n.text)
}

// taken empties a queue.
func taken(q *queue[note]) []string {
	var out []string
	for {
		n, ok := q.pop()
		if !ok {
			return out
		}
		out = append(out, n.about+n.text)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	const over = overflowed
	tests := []struct {
		policy, name string
		within       limits
		put          []note
		outcomes     []outcome
		want         []string
	}{
		{
			"merging", "the first one's place and the last one's state", limits{items: 2, bytes: 9},
			[]note{{"a", "1"}, {"b", "1"}, {"a", "2"}},
			[]outcome{queued, queued, merged},
			[]string{"a2", "b1"},
		},
		{
			"merging", "what does not fit changes nothing", limits{items: 1, bytes: 9},
			[]note{{"a", "1"}, {"b", "1"}, {"a", "2"}},
			[]outcome{queued, over, merged},
			[]string{"a2"},
		},
		{
			"merging", "some do not count", limits{items: 1, bytes: 9},
			[]note{{"A", "1"}, {"a", "1"}, {"B", "1"}, {"A", "2"}},
			[]outcome{queued, queued, queued, merged},
			[]string{"A2", "a1", "B1"},
		},
		{
			"in order", "everything, in order", limits{items: 3, bytes: 3},
			[]note{{"", "1"}, {"", "2"}, {"", "1"}},
			[]outcome{queued, queued, queued},
			[]string{"1", "2", "1"},
		},
		{
			"in order", "a bound of items", limits{items: 2, bytes: 9},
			[]note{{"", "1"}, {"", "2"}, {"", "3"}},
			[]outcome{queued, queued, over},
			[]string{"1", "2"},
		},
		{
			"in order", "a bound of bytes", limits{items: 9, bytes: 3},
			[]note{{"", "11"}, {"", "22"}, {"", "3"}},
			[]outcome{queued, over, queued},
			[]string{"11", "3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.policy+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			var q queue[note]
			for range 2 { // what was taken is not pending any more
				var outcomes []outcome
				for _, n := range tt.put {
					outcomes = append(outcomes, q.put(n, &tt.within))
				}
				if !slices.Equal(outcomes, tt.outcomes) {
					t.Errorf("outcomes %v, want %v", outcomes, tt.outcomes)
				}
				if got := taken(&q); !slices.Equal(got, tt.want) || q.len() != 0 {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// TestMergingFindsItsPlace wraps around many times, with so many pending that they are found by a map.
func TestMergingFindsItsPlace(t *testing.T) {
	t.Parallel()
	var q queue[note]
	within := &limits{items: 40, bytes: 40}
	var want []string
	for i := range 2000 {
		about := "n" + strconv.Itoa(i)
		if q.put(note{about, "-"}, within) != queued || q.put(note{about, "+"}, within) != merged {
			t.Fatalf("%s is not found", about)
		}
		want = append(want, about+"+")
		for q.len() > 30 {
			n, _ := q.pop()
			if n.about+n.text != want[0] {
				t.Fatalf("took %s, want %s", n, want[0])
			}
			want = want[1:]
		}
	}
	if got := taken(&q); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}
