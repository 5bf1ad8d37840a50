// SPDX-License-Identifier: Apache-2.0

// Package compact is what the three tools of a compact catalog do: it finds tools by words, describes one, and reads
// the call of another. Package catalog makes the tools, package bridge runs them.
//
// It decides nothing about permissions: its caller says which tools may be found, and runs the call that it has read as
// any other. Everything is safe for concurrent use.
package compact
