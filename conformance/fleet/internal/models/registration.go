// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"

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
		Partition: ByKey(func(input any) string { return input.(RegistrationInput).Name }), //nolint:forcetypeassert // all are
		Init:      func() any { return int64(0) },
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
