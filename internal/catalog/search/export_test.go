// SPDX-License-Identifier: Apache-2.0

package search

// What the tests outside the package look at.

const MaxQueryBytes = maxQueryBytes
