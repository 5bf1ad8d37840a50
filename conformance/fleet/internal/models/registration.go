// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// RegistrationInput is an operation on a registered tool: "register", "unregister" or "read". The output is whether it
// was acknowledged.
type RegistrationInput struct {
	Kind, Name string
	Version    int64
}

// RegistrationModel is what is promised of a registration, whose state is its version, or zero. Writes are
// linearizable at whichever replica: one that is acknowledged has replaced a lower version or none. Reads are not:
// a replica may be behind by a second, or for as long as it does not reach NATS. So the history has reads of the end
// alone, when all replicas have agreed, and they show the last write.
func RegistrationModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := ByKey(func(input any) string { return input.(RegistrationInput).Name })(history) //nolint:forcetypeassert // all are
			for i := range parts {
				parts[i] = withoutUnread(parts[i])
			}
			return parts
		},
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			now, in := state.(int64), input.(RegistrationInput) //nolint:forcetypeassert // all are
			acknowledged := output.(bool)                       //nolint:forcetypeassert // all are
			switch in.Kind {
			case "read":
				return now == in.Version, now
			case "unregister":
				return true, int64(0)
			}
			if in.Version > now {
				return true, in.Version
			}
			return !acknowledged, now
		},
		DescribeOperation: func(input, output any) string {
			in := input.(RegistrationInput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("%s %s %d: %v", in.Kind, in.Name, in.Version, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("version %d", state) },
	}
}

// withoutUnread leaves out the registrations that have no known outcome, and whose version no read shows. An order of the rest is one of
// all: these come last, where they may or may not have been made. And an order of all is one of the rest: without them the
// state is the same or a lower version, which every other operation allows that allowed the higher one, and no read saw that. Each one
// that stays may come at any place after its call, so that all of them together would cost more than all else.
func withoutUnread(history []porcupine.Operation) []porcupine.Operation {
	read := map[int64]bool{}
	for _, op := range history {
		if in := op.Input.(RegistrationInput); in.Kind == "read" { //nolint:forcetypeassert // all are
			read[in.Version] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool {
		in := op.Input.(RegistrationInput) //nolint:forcetypeassert // all are
		return in.Kind == "register" && op.Return == math.MaxInt64 && !read[in.Version]
	})
}
