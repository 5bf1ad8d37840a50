// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// logInput is a read of a stream of a legacy session, from its start or after an event. The output is the ids of the
// events that came, separated by spaces.
type logInput struct {
	Stream, After string
}

// logModel is what is promised of a stream of a session: its events are a log. Every read, at whichever replica, is a
// part of the log without gaps, right after the event that the client has named. Its state is as much of the log as was
// read. A log grows behind its end, so a read that begins there may have what nobody has read before.
func logModel() porcupine.Model {
	return porcupine.Model{
		Partition: byKey(func(input any) string { return input.(logInput).Stream }), //nolint:forcetypeassert // all are
		Init:      func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			log, came := strings.Fields(state.(string)), strings.Fields(output.(string)) //nolint:forcetypeassert // all are
			at := 0
			if after := input.(logInput).After; after != "" { //nolint:forcetypeassert // all are
				at = slices.Index(log, after) + 1
				if at == 0 {
					return false, state
				}
			}
			for i, id := range came {
				switch {
				case at+i < len(log):
					if log[at+i] != id {
						return false, state
					}
				case slices.Contains(log, id):
					return false, state
				default:
					log = append(log, id)
				}
			}
			return true, strings.Join(log, " ")
		},
		DescribeOperation: func(input, output any) string {
			in := input.(logInput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("read %s after %q: %s", in.Stream, in.After, output)
		},
		DescribeState: func(state any) string { return fmt.Sprint(state) },
	}
}
