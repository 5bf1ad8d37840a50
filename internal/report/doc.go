// SPDX-License-Identifier: Apache-2.0

// Package report is what commands and logs say about catalogs, servers and shared state. No call passes through it, and it
// changes nothing. Everything exported is safe for concurrent use, but for one [Examine].
//
// # Changes between two catalogs
//
// [Compare] compares two lists of tools and says which changes break callers ([Diff], [Change]). `sidecar diff` compares two
// files with it; [VersionFindings] compares a catalog that a server loads again with the one before. It reads tools in the
// format of `sidecar tools --json` ([ReadTools]) or from a catalog ([FromCatalog]). It compares schemas through references,
// independent of the order of members, and reads the two names of a field as one.
//
// What is plain is compared, and everything else may break: what changes a pattern, alternatives that differ in more than one
// place, oneofs, an unknown keyword, a schema beyond the limits. It proves nothing.
//
// Breaking changes follow from who depends on what. An input may accept more and never less: a removed parameter, a new required
// one, a different type, a tighter limit are breaking. An output may contain less and never something else: a field that is
// removed, optional or of another type is breaking. Two changes are compatible by convention, although a strict validator with
// the old schema would reject them: a new output field, and a wider range of values (an enum value, a limit) of an output field
// that keeps its type. A removed or newly destructive tool is breaking.
//
// It rejects tool lists that are not strict JSON, contain a name twice, or exceed its limits.
//
// # What clients do with a list
//
// [Lint] judges a list of tools by what clients and model providers do with it: what they refuse, cut or misread, and what a
// model cannot choose by. What is known of clients is data: a list in lint_facts.go, each with its source and date. A fact
// applies one rule to one client, with its limits; the rules themselves know no client. Findings say what to do: lines for the
// configuration file where those can help. It judges what a client sees and nothing else, so that a list that was saved is
// judged as the live one.
//
// # Specification pages
//
// [NewPage] writes a tool's specification page: everything that a caller needs to know, in eight sections (purpose, invocation
// name, input, output, errors, idempotency, examples, security), as JSON or Markdown. A page contains only what the descriptors,
// the options and the canonical error table declare, and lists what is missing, with the way to add it.
//
// # server.json
//
// [NewServerJSON] describes a deployment for the registry of MCP servers (`sidecar server-json`), and checks what the registry
// would refuse.
//
// # Shared state
//
// [StateKinds] is the list of what replicas share in NATS JetStream (package state): a kind more is one entry there. [OpenState]
// connects and declares all of them as a replica does, without making anything. What a stored value says is decoded by its kind:
// [StateKind.Columns] for lists, and [StateKind.Document] for one entry, without arguments, results and secrets unless they are
// asked for.
//
// # Diagnosis of a backend
//
// [Examine] diagnoses, step by step, why a backend has no tools, and how to fix it. It runs the same steps as a sidecar at
// startup.
package report
