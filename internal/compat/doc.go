// SPDX-License-Identifier: Apache-2.0

// Package compat says what changed between two catalogs and whether it breaks callers.
//
// It stands beside the flow: `sidecar diff` compares two files with it, and a server compares the catalog that it loads
// with the last one it had, which a [Store] keeps across restarts. It reads tools in the form of `sidecar tools --json`
// ([ReadTools]) or from a catalog ([FromCatalog]) and compares schemas by meaning: through references, whatever the order
// of members, and with the clauses that the sidecar derives (second names of a field, oneofs, null for absence) read as
// what they stand for.
//
// What breaks follows who depends on what. An input may accept more and never less: a removed parameter, a new required
// one, another type, a tighter bound are breaking. An output may say less and never something else: a field that is
// gone, optional or of another type is breaking. Two things are compatible by convention, although a strict validator
// with the old schema would refuse them: a new output field, and a wider range of values (an enum value, a bound) of an
// output field that keeps its type. A tool that is gone or newly marked destructive is breaking. What cannot be compared
// (an unknown keyword that differs, a schema beyond the limits) counts as breaking.
//
// It refuses tool lists that are not strict JSON, that hold a name twice, or that are over its limits. Everything it
// exports may be used concurrently, except that one folder belongs to one [Store] at a time.
package compat
