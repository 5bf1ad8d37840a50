// SPDX-License-Identifier: Apache-2.0

package task

// What the tests outside the package look at.

const (
	MaxMessage = maxMessage
	MaxTimeout = maxTimeout
)

// What failed calls end with.
var (
	ErrorResult = errorResult
	ErrorObject = errorObject
)
