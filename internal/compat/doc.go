// SPDX-License-Identifier: Apache-2.0

// Package compat compares two catalogs and reports which changes break callers.
//
// No call passes through it. `sidecar diff` compares two files with it. A server compares the catalog that it loads
// with the previous one, which a [Store] keeps across restarts. It reads tools in the format of `sidecar tools --json`
// ([ReadTools]) or from a catalog ([FromCatalog]). It compares schemas by meaning: through references, independent of
// the order of members, and with the clauses that the sidecar derives (second names of a field, oneofs, null for
// absence) translated back to their meaning.
//
// Breaking changes follow from who depends on what. An input may accept more and never less: a removed parameter, a new
// required one, a different type, a tighter limit are breaking. An output may contain less and never something else: a
// field that is removed, optional or of another type is breaking. Two changes are compatible by convention, although a
// strict validator with the old schema would reject them: a new output field, and a wider range of values (an enum
// value, a limit) of an output field that keeps its type. A removed or newly destructive tool is breaking. What cannot
// be compared (an unknown keyword that differs, a schema beyond the limits) counts as breaking.
//
// It rejects tool lists that are not strict JSON, contain a name twice, or exceed its limits. Everything exported is
// safe for concurrent use, except that a directory belongs to one [Store] at a time.
package compat
