// SPDX-License-Identifier: Apache-2.0

package longrunning

// What the tests outside the package look at.

const (
	MaxInterval = maxInterval
	MaxName     = maxName
	MinInterval = minInterval
)

var ErrNoHandle = errNoHandle
