// SPDX-License-Identifier: Apache-2.0

// Package serverjson makes server.json, the document by which an MCP server is published in a registry, in the format of
// 2025-12-11.
//
// It checks what the format and the official registry require and a publisher can get wrong, so that a mistake shows
// before the upload. It contacts no registry. Its functions are safe for concurrent use.
package serverjson
