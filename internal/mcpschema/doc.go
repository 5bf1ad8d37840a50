// SPDX-License-Identifier: Apache-2.0

// Package mcpschema checks messages against the official JSON Schemas of the MCP
// revisions, and against those of the specifications' rules that a schema does
// not say: what belongs to which request, what may be sent by whom, and what one
// era must not leak into the other. It is for tests alone.
//
// The schemas and the official samples are not part of the project. They are
// read as data from the folder shared/mcp-schema beside it; without that folder
// the tests that need it are skipped and say so. The extension
// io.modelcontextprotocol/tasks has no schema there; tasks.schema.json is the
// project's own, made from the extension's text.
//
// A [Schema] is immutable and safe for concurrent use.
package mcpschema
