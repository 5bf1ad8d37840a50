// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
)

// Run proves the messages of a set, as many at a time as there are processors. Failures are sorted by message.
func Run(set *sources.Set, messages []protoreflect.MessageDescriptor, effort Effort) (Counts, []Failure) {
	transcoder := newTranscoders(set.Types)
	queue := make(chan protoreflect.MessageDescriptor)
	var mu sync.Mutex
	total, failures := Counts{Skipped: map[string]int{}, Excused: map[Reason]int{}}, []Failure(nil)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for md := range queue {
				counts, found := prove(transcoder, set.Types, md, effort)
				mu.Lock()
				total.add(counts)
				failures = append(failures, found...)
				mu.Unlock()
			}
		})
	}
	for _, md := range messages {
		queue <- md
	}
	close(queue)
	workers.Wait()
	slices.SortFunc(failures, func(a, b Failure) int { return strings.Compare(string(a.Message)+a.Claim, string(b.Message)+b.Claim) })
	return total, failures
}

// prove runs one message. What panics is a failure of that message, so that the others are still proved.
func prove(t *transcoders, types *sources.Types, md protoreflect.MessageDescriptor, effort Effort) (counts Counts, failures []Failure) {
	defer func() {
		if r := recover(); r != nil {
			failures = append(failures, Failure{md.FullName(), "nothing panics", fmt.Sprint(r), string(stack())})
		}
	}()
	s, err := newSubject(t, types, md)
	if err != nil {
		return Counts{Messages: 1}, []Failure{{md.FullName(), "a schema and a transcoder are made", err.Error(), ""}}
	}
	c := newCheck(s, effort)
	c.run()
	return c.counts, c.failures
}

// stack is where a panic came from.
func stack() []byte {
	buf := make([]byte, 4<<10)
	return buf[:runtime.Stack(buf, false)]
}

func (c *Counts) add(o Counts) {
	c.Messages += o.Messages
	c.Ran += o.Ran
	c.Random += o.Random
	c.Answers += o.Answers
	c.Mutations += o.Mutations
	c.Taken += o.Taken
	c.Shown += o.Shown
	c.NotShown += o.NotShown
	c.Stuck += o.Stuck
	c.Open += o.Open
	c.SchemaBytes += o.SchemaBytes
	c.LargestSchema = max(c.LargestSchema, o.LargestSchema)
	for k, n := range o.Skipped {
		c.Skipped[k] += n
	}
	for k, n := range o.Excused {
		c.Excused[k] += n
	}
}

// String is one paragraph.
func (c Counts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages, %d with random values: %d inputs, %d answers, %d mutations of which %d taken", c.Messages, c.Ran, c.Random, c.Answers, c.Mutations, c.Taken)
	if c.Messages > 0 {
		fmt.Fprintf(&b, "; schemas of %d bytes on average, %d at most, %d messages with one left open", c.SchemaBytes/c.Messages/(4*len(profiles())), c.LargestSchema, c.Open)
	}
	fmt.Fprintf(&b, "; %d inputs in the form of the strict profile, %d that it cannot show", c.Shown, c.NotShown)
	if c.Stuck > 0 {
		fmt.Fprintf(&b, "; %d times no random message was found", c.Stuck)
	}
	for _, k := range sorted(c.Skipped) {
		fmt.Fprintf(&b, "\n\tskipped %d: %s", c.Skipped[k], k)
	}
	for _, k := range sorted(c.Excused) {
		fmt.Fprintf(&b, "\n\texcused %d: %s", c.Excused[k], k)
	}
	return b.String()
}

func sorted[K ~string](m map[K]int) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
