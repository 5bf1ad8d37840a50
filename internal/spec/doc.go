// SPDX-License-Identifier: Apache-2.0

// Package spec writes a tool's specification page: all that somebody needs to know to call it, in eight sections
// (purpose, invocation name, input, output, errors, idempotency, examples, security), as JSON or Markdown.
//
// It stands beside the flow: `sidecar tools NAME --spec` asks it about a tool of the catalog. It says only what the
// descriptors, the options and the canonical error table say; what they leave open is named, with the way to add it. It
// makes no calls and decides nothing. Its functions may be called concurrently.
package spec
