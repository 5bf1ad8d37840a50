// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/internal/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// note is an item about a subject; its text is its state and takes memory. Subjects
// in capitals do not count against bounds.
type note struct{ about, text string }

func (n note) Key() string  { return n.about }
func (n note) Counts() bool { return n.about[0] >= 'a' }
func (n note) Size() int    { return len(n.text) }
func (n note) String() string {
	return n.about + n.text
}

// taken empties a queue.
func taken(q hub.Queue[note]) []string {
	var out []string
	for {
		n, ok := q.Take()
		if !ok {
			return out
		}
		out = append(out, n.String())
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	queues := map[string]func() hub.Queue[note]{
		"merging":  func() hub.Queue[note] { return &hub.Merging[string, note]{} },
		"in order": func() hub.Queue[note] { return &hub.InOrder[note]{} },
	}
	const queued, merged, over = hub.Queued, hub.Merged, hub.Overflowed
	tests := []struct {
		policy, name string
		bounds       hub.Bounds
		put          []note
		outcomes     []hub.Outcome
		want         []string
	}{
		{
			"merging", "the first one's place and the last one's state", hub.Bounds{Items: 2},
			[]note{{"a", "1"}, {"b", "1"}, {"a", "2"}},
			[]hub.Outcome{queued, queued, merged},
			[]string{"a2", "b1"},
		},
		{
			"merging", "what does not fit changes nothing", hub.Bounds{Items: 1},
			[]note{{"a", "1"}, {"b", "1"}, {"a", "2"}},
			[]hub.Outcome{queued, over, merged},
			[]string{"a2"},
		},
		{
			"merging", "some do not count", hub.Bounds{Items: 1},
			[]note{{"A", "1"}, {"a", "1"}, {"B", "1"}, {"A", "2"}},
			[]hub.Outcome{queued, queued, queued, merged},
			[]string{"A2", "a1", "B1"},
		},
		{
			"in order", "everything, in order", hub.Bounds{Items: 3, Bytes: 3},
			[]note{{"a", "1"}, {"b", "1"}, {"a", "2"}},
			[]hub.Outcome{queued, queued, queued},
			[]string{"a1", "b1", "a2"},
		},
		{
			"in order", "a bound of items", hub.Bounds{Items: 2, Bytes: 9},
			[]note{{"a", "1"}, {"a", "2"}, {"a", "3"}},
			[]hub.Outcome{queued, queued, over},
			[]string{"a1", "a2"},
		},
		{
			"in order", "a bound of bytes", hub.Bounds{Items: 9, Bytes: 3},
			[]note{{"a", "11"}, {"a", "22"}, {"a", "3"}},
			[]hub.Outcome{queued, over, queued},
			[]string{"a11", "a3"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.policy+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			q := queues[tt.policy]()
			for range 2 { // what was taken is not pending any more
				var outcomes []hub.Outcome
				for _, n := range tt.put {
					outcomes = append(outcomes, q.Put(n, &tt.bounds))
				}
				if !slices.Equal(outcomes, tt.outcomes) {
					t.Errorf("outcomes %v, want %v", outcomes, tt.outcomes)
				}
				if got := taken(q); !slices.Equal(got, tt.want) || q.Len() != 0 {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
			q.Put(tt.put[0], &tt.bounds)
			q.Reset()
			if got := taken(q); got != nil {
				t.Errorf("after Reset: %q", got)
			}
		})
	}
}

// TestMergingFindsItsPlace wraps around many times, with so many pending that they are
// found by a map, and gives some of them up.
func TestMergingFindsItsPlace(t *testing.T) {
	t.Parallel()
	var q hub.Merging[string, note]
	within := &hub.Bounds{Items: 40}
	var want []string
	for i := range 2000 {
		about := "n" + strconv.Itoa(i)
		if q.Put(note{about, ""}, within) != hub.Queued || q.Put(note{about, "+"}, within) != hub.Merged {
			t.Fatalf("%s is not found", about)
		}
		want = append(want, about+"+")
		if i%100 == 99 {
			q.Retain(func(n note) bool { return n.about[len(n.about)-1] != '7' })
			want = slices.DeleteFunc(want, func(s string) bool { return s[len(s)-2] == '7' })
		}
		for q.Len() > 30 {
			n, _ := q.Take()
			if n.String() != want[0] {
				t.Fatalf("took %s, want %s", n, want[0])
			}
			want = want[1:]
		}
	}
	if got := taken(&q); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}
