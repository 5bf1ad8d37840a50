// SPDX-License-Identifier: Apache-2.0

// Package audit writes the audit trail: one JSON line for each invocation of a tool,
// resource or prompt, and for each change by an operator or of a file. It is never
// sampled.
//
// The bridge reports invocations ([Trail.Begin], [Trail.End]), and the assembly reports
// changes ([Trail.Change]). A line has every member of its schema, null where unknown:
// testdata/schemas/audit-v1.schema.json. Lines of one invocation have the same id.
//
// A trail that is required, or synced for every line, has two lines for each invocation:
// Begin returns once the first one is on the disk, before the backend is called. Calls that
// wait at the same time share one fsync. A trail that is required refuses what it cannot
// record; any other trail never keeps a caller waiting for a failed disk.
//
// [Read] reads trails back, line by line, in bounded memory. A nil *Trail writes nothing.
// All methods are safe for concurrent use.
package audit
