// SPDX-License-Identifier: Apache-2.0

// Package options has the Go types of the annotations in outrigger/v1/options.proto, and is the only one that registers
// them. Generated code of a file with annotations imports it.
package options
