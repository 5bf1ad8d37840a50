// SPDX-License-Identifier: Apache-2.0

// Package redact copies JSON payloads without their secrets, for run records and the audit
// trail.
//
// A member is secret by its name, wherever it is ([Redactor]), or by its field: a
// [Message] knows which fields of a message type are marked with debug_redact or
// (outrigger.v1.field).secret, at every depth. It is compiled once for a type and cached
// ([Messages]).
package redact
