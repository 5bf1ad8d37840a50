// SPDX-License-Identifier: Apache-2.0

package keys

// What the tests outside the package look at.

var ErrInvalid = errInvalid
