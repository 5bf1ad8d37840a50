// SPDX-License-Identifier: Apache-2.0

package demo

// What the tests outside the package look at.

var ErrNotLoopback = errNotLoopback
