// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// EventInput is the publication of an event that somebody heard, with its place among all that were heard.
type EventInput struct {
	Name  string
	Place int
}

// EventModel is a log: publications take effect one after the other, in the order in which subscribers heard them. So
// an event that was acknowledged before another was published is heard before it.
func EventModel() porcupine.Model {
	return porcupine.Model{
		Partition: ByKey(func(any) string { return "" }),
		Init:      func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			next, in := state.(int), input.(EventInput) //nolint:forcetypeassert // all are
			return in.Place == next, next + 1
		},
		DescribeOperation: func(input, _ any) string {
			in := input.(EventInput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("publish %s: heard at %d", in.Name, in.Place)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%d events", state) },
	}
}
