// SPDX-License-Identifier: Apache-2.0

// Package defaults has the defaults of settings as constants, for options that may be
// zero. They are generated from the fields in proto/outrigger/config/v1.
//
// The package imports no package of this module, so that all of them may import it.
package defaults

import "time"

// ServerName is what the sidecar is called where its services have no name in common.
const ServerName = "outrigger"

// Fill sets an option to its default if it is zero or negative and therefore bounds
// nothing.
func Fill[T int | int64 | time.Duration](option *T, byDefault T) {
	if *option <= 0 {
		*option = byDefault
	}
}
