// SPDX-License-Identifier: Apache-2.0

// Package catalog knows which tools exist. It reads Protobuf descriptors from their sources (server reflection,
// descriptor set files), turns every method into a [Tool] with names, texts, schemas and transcoders, and freezes the
// result as a [Catalog].
//
// A backend that implements outrigger.v1.ToolService is a separate kind of source ([source.NewNative]). Its tools keep
// the names and schemas that the backend declares, and the catalog keeps the backend's description of itself. Native
// tools have no transcoders, since their arguments and results stay JSON. They belong to no service, since one RPC calls
// all of them.
//
// Every call has one result. A server-streaming method has its responses collected as items. A method that responds with
// google.api.HttpBody has a document and no schema. A client-streaming method is listed, but cannot be called.
//
// A method marked by its option or by the overlay is also a source of resources (package resource): it reads one
// resource, reads a family with a URI template, or lists them. The request is filled in from the URI, and the contents
// are taken from the response. Another package makes the call, like that of a tool.
//
// The catalog sits between bridge, which looks up a tool by name, and schema and transcode, whose results it stores per
// tool. It calls backends only to discover what they offer, and decides nothing about callers.
//
// It refuses anything that would make a tool ambiguous or empty. Two methods with one name are a [BuildError] that names
// both and the option that tells them apart. An invalid option, and two templates that could match the same URI, are a
// [BuildError] too. A source that fails, returns inconsistent data or offers nothing is a [source.Error] with its cause,
// never an empty list. A problem that affects one file, one method or one native tool (a file that does not link, a
// comment that is too long, a schema that does not compile) is a [source.Warning], and the rest is served.
//
// Schemas and fingerprints of tools are derived on first use: a catalog of ten thousand methods is ready before a client
// has requested one of its lists. To compare itself with another one, a catalog uses digests of the definitions that the
// schemas are made of.
//
// A later load rebuilds only what has changed: files whose bytes differ, or that import a file whose bytes differ. It
// reuses descriptors and what was found out about tools, but the tools are new. The result equals that of a full build.
//
// A [Catalog] and everything it holds is immutable and safe for concurrent use. [Live] holds the current one behind an
// atomic pointer and replaces it as a whole. Its methods may be called from any goroutine.
package catalog
