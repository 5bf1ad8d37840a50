// SPDX-License-Identifier: Apache-2.0

// Package layout holds the tests that keep the project's shape: who may import
// whom, no init functions, a licence and a package comment everywhere. It has no
// other code.
package layout
