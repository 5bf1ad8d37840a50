// SPDX-License-Identifier: Apache-2.0

// Package sources gathers descriptors for the corpus: those that generated code registers in the binary (Linked), and
// those of .proto files that Go modules carry (Parse, Modules). Both come as a Set, whose types are dynamic, as a
// catalog's are.
//
// It reads files and runs the go command to find modules; it holds nothing between calls.
package sources
