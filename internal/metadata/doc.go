// SPDX-License-Identifier: Apache-2.0

// Package metadata says which headers cross the sidecar, and which way.
//
// Callers and backends send metadata beside their messages: HTTP headers, gRPC
// metadata. [Rules] are the two allow-lists, one for each direction. Credentials and
// what belongs to one hop never cross, whatever a list says. The one header that
// needs no rule is the key of calls that may be repeated ([IdempotencyHeader]).
package metadata
