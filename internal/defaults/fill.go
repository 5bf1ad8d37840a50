// SPDX-License-Identifier: Apache-2.0

package defaults

import "time"

// Fill sets an option to its default if it is zero or negative and therefore bounds
// nothing.
func Fill[T int | int64 | time.Duration](option *T, byDefault T) {
	if *option <= 0 {
		*option = byDefault
	}
}
