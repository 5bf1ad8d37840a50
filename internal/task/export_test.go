// SPDX-License-Identifier: Apache-2.0

package task

// What the tests outside the package look at.

const (
	DefaultMaxMessage = defaultMaxMessage
	DefaultMaxTimeout = defaultMaxTimeout
)
