// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether a resolved tool may run for a caller, before
// its arguments are looked at. Today that is the destructive gate; identities,
// permissions and rates join it here, so that no edge, alias or batch has a way
// around them. Its types are safe for concurrent use.
package policy
