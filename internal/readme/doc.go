// SPDX-License-Identifier: Apache-2.0

// Package readme tests the documents: the commands of README.md run and print what it
// says, links lead somewhere, and claims name tests that exist. It has no other code.
package readme
