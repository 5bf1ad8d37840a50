// SPDX-License-Identifier: Apache-2.0

// Package programs compares what an agent reads and waits for with single calls, with a full or a compact list, and with
// programs. It has tests only: thirty tasks over five catalogs, and the table of docs/programs-figures.md.
package programs
