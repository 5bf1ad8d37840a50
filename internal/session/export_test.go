// SPDX-License-Identifier: Apache-2.0

package session

// What the tests outside the package look at.

var (
	ErrEnded      = errEnded
	ErrTaken      = errTaken
	ErrUnexpected = errUnexpected
)
