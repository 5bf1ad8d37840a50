// SPDX-License-Identifier: Apache-2.0

// Package scopes holds callers with OAuth access tokens to the scopes that tools and
// operations need. It knows what needs which scope, from the configuration, from the
// options of tools, or by a rule, and it compares that with the scopes of a token. What
// is missing is PERMISSION_DENIED with a challenge (RFC 6750, section 3.1), so that a
// client can request a token with more scopes.
//
// Callers that were identified in another way have no scopes and are not restricted
// here. The package verifies no token. It is safe for concurrent use.
package scopes
