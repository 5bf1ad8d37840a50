// SPDX-License-Identifier: Apache-2.0

// Package abuse attacks the listeners of the real binary as somebody without
// credentials would: connections that are held, framing that two parsers read
// differently, more connections than there are file descriptors. Each attack is a
// row of a table, and runs against every listener that it applies to. The drain is
// tried under callers of every kind, of which none may go without an answer.
//
// The package has tests only. By default they run a sample within seconds;
// OUTRIGGER_FULL=1 runs everything (make abuse-test).
package abuse
