// SPDX-License-Identifier: Apache-2.0

package lock

// Canonicalise is canonicalise, for the test vectors of RFC 8785.
func Canonicalise(text []byte) ([]byte, error) { return canonicalise(text) }

const MaxFileBytes = maxFileBytes
