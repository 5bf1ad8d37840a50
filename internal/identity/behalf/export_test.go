// SPDX-License-Identifier: Apache-2.0

package behalf

// What the tests outside the package look at.

const (
	MaxTTL          = maxTTL
	TypeAccessToken = typeAccessToken
)
