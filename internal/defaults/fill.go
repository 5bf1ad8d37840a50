// SPDX-License-Identifier: Apache-2.0

package defaults

import "time"

// Fill sets an option that bounds nothing, because it is zero or negative, to its
// default.
func Fill[T int | int64 | time.Duration](option *T, byDefault T) {
	if *option <= 0 {
		*option = byDefault
	}
}
