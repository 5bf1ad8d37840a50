// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a resolved tool may run for a caller, before
// its arguments are read: the destructive gate, rate limits, and the admission
// of concurrent calls. All edges, aliases and batches use it, so none can
// bypass it. Its types are safe for concurrent use.
package policy
