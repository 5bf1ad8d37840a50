// SPDX-License-Identifier: Apache-2.0

// Package recall measures how well the search for tools finds what callers ask for, on public APIs and with published
// queries. It links the APIs by itself, because the types that a test binary links are one set.
package recall
