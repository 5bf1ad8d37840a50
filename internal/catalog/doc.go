// SPDX-License-Identifier: Apache-2.0

// Package catalog knows which tools exist. It reads Protobuf descriptors from their sources (server reflection,
// descriptor set files), turns every method into a [Tool] with names, texts, schemas and transcoders, and freezes the
// result as a [Catalog].
//
// A backend that implements outrigger.v1.ToolService is a source of its own ([source.NewNative]): its tools are what it
// declares, under the names and with the schemas that it declares, and what it says about itself goes with them. They
// have no transcoders, since their arguments and results stay JSON, and belong to no service, since all of them are
// called by one RPC.
//
// What one call answers is one result. A method that answers with a stream has its answers gathered as items; one that
// answers with google.api.HttpBody has a document and no schema; one that takes a stream is listed, and cannot be
// called.
//
// A method that is marked so, by its option or by the overlay, is also a source of resources (package resource): it reads
// one, or a family with a URI template, or it lists them. The request is filled in from the URI, and the contents are
// taken from the response; the call itself is made elsewhere, like that of a tool.
//
// In the flow it stands between bridge, which asks for a tool by name, and schema and transcode, whose products it
// stores per tool. It calls no method itself, except for asking what there is, and decides nothing about callers.
//
// It refuses what would make a tool ambiguous or empty: two methods with one name are a [BuildError] that names both
// and the option that tells them apart, and a source that fails, lies or offers nothing is a [source.Error] with its
// cause, never an empty list. A wrong option, and two templates that could be one URI, are a [BuildError] too. What only
// costs one file, one method or one native tool (a file that does not link, a comment that is too long, a schema that
// does not compile) is a [Warning] and the rest is served.
//
// Schemas are derived when somebody first asks for one, and so are fingerprints of tools: a catalog of ten thousand methods
// is ready before a client has asked for one of its lists. What a catalog compares itself by are digests of the
// definitions that the schemas are made of.
//
// A load that follows another one builds only what has changed: the files whose bytes, or those of a file that they import,
// are others. What is taken over are descriptors, and what was found out about tools; the tools are new ones. What comes out
// is what a build of everything would have made.
//
// A [Catalog] and all that it holds is immutable and safe for concurrent use. [Live] holds the current one behind an
// atomic pointer and replaces it as a whole; its methods may be called from any goroutine.
package catalog
