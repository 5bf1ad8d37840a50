// SPDX-License-Identifier: Apache-2.0

// Package annotation reads the options that APIs carry for other tools: protoc-gen-openapiv2, gnostic's OpenAPI 3,
// protoc-gen-validate, and google.api's resources, formats and method signatures.
//
// Packages schema and catalog call it to describe tools. Options are read from their wire bytes, so reflected descriptors
// need none of the generated code of these annotations. The package only reads: what an annotation allows or forbids is
// shown to callers, never enforced.
//
// Bytes that cannot be read are a problem, which is returned beside what can be read, and never an error: an annotation of
// another tool must not cost a service its tools. Texts are returned as they are, but for invalid UTF-8, which is replaced.
//
// All functions are safe for concurrent use.
package annotation
