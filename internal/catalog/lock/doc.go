// SPDX-License-Identifier: Apache-2.0

// Package lock computes the digests of tools, keeps them in a lock file, and tells what has changed since.
//
// A digest is the SHA-256 of the RFC 8785 form (JCS) of what clients see of a tool: name, description, schemas and
// annotations. Clients compute the same digest from a listing. docs/catalog-lock.md has the members and an example.
//
// A [Lock] lists the tools that somebody has reviewed, each with its digest and the digests of its members. The file is
// JSON, sorted by name, so that a change of one tool is a diff of a few lines. [Lock.Compare] returns the tools that were
// added, removed and changed.
//
// The package knows neither catalogs nor the network, and decides nothing: whether drift is reported or refused is up to
// the caller. All values are immutable after they were made and safe for concurrent use.
package lock
