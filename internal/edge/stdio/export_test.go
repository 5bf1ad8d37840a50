// SPDX-License-Identifier: Apache-2.0

package stdio

// What the tests outside the package look at.

var ErrStuck = errStuck
