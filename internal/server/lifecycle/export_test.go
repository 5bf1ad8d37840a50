// SPDX-License-Identifier: Apache-2.0

package lifecycle

// What the tests outside the package look at.

var ErrNotDraining = errNotDraining
