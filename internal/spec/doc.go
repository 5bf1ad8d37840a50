// SPDX-License-Identifier: Apache-2.0

// Package spec writes a tool's specification page: everything that a caller needs to know, in eight sections (purpose,
// invocation name, input, output, errors, idempotency, examples, security), as JSON or Markdown.
//
// `sidecar tools NAME --spec` calls it for a tool of the catalog. A page contains only what the descriptors, the
// options and the canonical error table declare. It lists missing facts, with the way to add them. The package makes no
// calls and decides nothing. Its functions may be called concurrently.
package spec
