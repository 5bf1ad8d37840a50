// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
)

// logInput is a read of a stream of a legacy session, from its start or after an event. The output is the ids of the
// events that came, separated by spaces, with withoutID for each event that had none.
type logInput struct {
	Stream, After string
}

// withoutID stands for an event without an id: one that was not stored, because NATS was away.
const withoutID = "-"

// logModel is what is promised of a stream of a session: its events are a log. Every read, at whichever replica, is a
// part of the log without gaps, right after the event that the client has named. Its state is as much of the log as was
// read. A log grows behind its end, so a read that begins there may have what nobody has read before. An event without
// an id may be missing from any other read, or have an id there.
func logModel() porcupine.Model {
	return porcupine.Model{
		Partition: models.ByKey(func(input any) string { return input.(logInput).Stream }), //nolint:forcetypeassert // all are
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
			rest, ok := align(log[at:], came)
			if !ok {
				return false, state
			}
			all := append(slices.Clone(log[:at]), rest...)
			ids := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == withoutID })
			slices.Sort(ids)
			if len(slices.Compact(ids)) != len(all)-count(all, withoutID) {
				return false, state // one came twice
			}
			return true, strings.Join(all, " ")
		},
		DescribeOperation: func(input, output any) string {
			in := input.(logInput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("read %s after %q: %s", in.Stream, in.After, output)
		},
		DescribeState: func(state any) string { return fmt.Sprint(state) },
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// align puts what came to a log, which it returns with what is new.
func align(log, came []string) ([]string, bool) {
	switch {
	case len(came) == 0:
		return log, true
	case len(log) == 0:
		return came, true
	}
	l, c := log[0], came[0]
	for _, s := range []struct {
		may, takesLog, takesCame bool
		as                       string
	}{
		// An id has one place: where it comes later, it is not that of an event without one.
		{l == c, true, true, l},
		{l == withoutID && c != withoutID && !slices.Contains(log, c), true, true, c}, // it was stored after all
		{l != withoutID && c == withoutID && !slices.Contains(came, l), true, true, l},
		{l == withoutID && c != withoutID, true, false, l}, // it was not
		{c == withoutID, false, true, c},
	} {
		if !s.may {
			continue
		}
		restLog, restCame := log, came
		if s.takesLog {
			restLog = log[1:]
		}
		if s.takesCame {
			restCame = came[1:]
		}
		if rest, ok := align(restLog, restCame); ok {
			return append([]string{s.as}, rest...), true
		}
	}
	return nil, false
}
