// SPDX-License-Identifier: Apache-2.0

package notify

// What the tests outside the package look at.

const (
	BackoffMax     = backoffMax
	FinalPause     = finalPause
	Linger         = linger
	MaxPatterns    = maxPatterns
	MaxTaskIDBytes = maxTaskIDBytes
	MaxURIBytes    = maxURIBytes
)

type ChangeError = changeError
