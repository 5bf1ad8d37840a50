// SPDX-License-Identifier: Apache-2.0

// Package stranger shows how many files it takes to add something: its tests make each kind of addition in a copy of the tree,
// build the sidecar there, run it, and count the files that were written by hand. The table in docs/changing.md says the same.
//
// It has tests only. `make stranger-test` runs them, STRANGER=row one of them.
package stranger
