// SPDX-License-Identifier: Apache-2.0

// Package report is what commands and logs say about catalogs, backends and shared state. No call passes through it, and it
// changes nothing. Each report is data first, and text or JSON after that.
//
//	Compare        what changes for callers between two lists of tools (`sidecar diff`), or two loads of a server (VersionFindings)
//	Lint           what clients and model providers refuse, cut or misread in a list (`sidecar lint`)
//	NewPage        a tool's specification page: purpose, input, output, errors, examples, and what is missing
//	NewServerJSON  a deployment, for the registry of MCP servers, and what the registry would refuse
//	Examine        why a backend has no tools, by the steps of a start (`sidecar doctor`)
//	StateKinds     what replicas share in NATS JetStream; OpenState connects as a replica does, without making anything
//
// Tools come from a catalog ([FromCatalog]) or from a file in the format of `sidecar tools --json` ([ReadTools]), which is refused
// if it is not strict JSON, has a name twice or exceeds the limits.
//
// Compare follows references, ignores the order of members and takes the two names of a field as one. What breaks follows from
// who depends on what. An input may accept more and never less: a removed parameter, a new required one, another type, a tighter
// limit break. An output may contain less and never something else: a field that is removed, optional or of another type breaks.
// By convention a new output field and a wider range of one are compatible, although a strict validator with the old schema would
// reject them. A removed or newly destructive tool breaks. Everything that is not plain (patterns, oneofs, alternatives that
// differ in more than one place, unknown keywords, what exceeds the limits) may break: nothing is proved.
//
// What Lint knows of clients is data: facts in lint_facts.go, each with its source and date, which apply one rule to one client.
// The rules know no client. A list that was saved is judged as the live one.
//
// Everything exported is safe for concurrent use, but for one [Examine].
package report
