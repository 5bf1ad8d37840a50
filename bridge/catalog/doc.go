// SPDX-License-Identifier: Apache-2.0

// Package catalog knows which tools exist. It reads Protobuf descriptors from their sources (server reflection,
// descriptor set files), turns every method into a [Tool] with names, texts, schemas and transcoders, and freezes the
// result as a [Catalog].
//
// In the flow it stands between bridge, which asks for a tool by name, and schema and transcode, whose products it
// stores per tool. It calls no method itself and decides nothing about callers.
//
// It refuses what would make a tool ambiguous or empty: two methods with one name are a [BuildError] that names both
// and the option that tells them apart, and a source that fails, lies or offers nothing is a [SourceError] with its
// cause, never an empty list. What only costs one file or one method (a file that does not link, a comment that is too
// long) is a [Warning] and the rest is served.
//
// A [Catalog] and all that it holds is immutable and safe for concurrent use. [Live] holds the current one behind an
// atomic pointer and replaces it as a whole; its methods may be called from any goroutine.
package catalog
