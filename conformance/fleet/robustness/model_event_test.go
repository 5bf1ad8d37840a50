// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// eventInput is the publication of an event that somebody heard, with its place among all that were heard.
type eventInput struct {
	Name  string
	Place int
}

// eventModel is a log: publications take effect one after the other, in the order in which subscribers heard them. So
// an event that was acknowledged before another was published is heard before it.
func eventModel() porcupine.Model {
	return porcupine.Model{
		Partition: byKey(func(any) string { return "" }),
		Init:      func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			next, in := state.(int), input.(eventInput) //nolint:forcetypeassert // all are
			return in.Place == next, next + 1
		},
		DescribeOperation: func(input, _ any) string {
			in := input.(eventInput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("publish %s: heard at %d", in.Name, in.Place)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%d events", state) },
	}
}
