// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// ConsentOutput is what came of one use of a consent.
type ConsentOutput string

const (
	Ran        ConsentOutput = "ran"
	UsedBefore ConsentOutput = "used before"
	Unknown    ConsentOutput = "outcome unknown"
)

// ConsentModel is what is promised of a consent: at most one of its uses runs, and the others learn that there was one
// before it only if there was. The input of an operation is the name of the call that it is for. A use of which no one
// knows the outcome may have been the one.
func ConsentModel() porcupine.Model {
	return porcupine.Model{
		Partition: ByKey(func(input any) string { return input.(string) }), //nolint:forcetypeassert // all are
		Init:      func() any { return false },
		Step: func(state, _, output any) (bool, any) {
			used := state.(bool)            //nolint:forcetypeassert // all are
			switch output.(ConsentOutput) { //nolint:forcetypeassert // all are
			case Ran:
				return !used, true
			case UsedBefore:
				return used, used
			}
			return true, true
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("consent to %s: %s", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("used: %v", state) },
	}
}
