// SPDX-License-Identifier: Apache-2.0

// Package readme holds the test that runs what README.md tells a newcomer to
// run, and compares what it says is printed with what is. It has no code of its
// own.
package readme
