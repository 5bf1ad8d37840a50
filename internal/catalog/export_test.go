// SPDX-License-Identifier: Apache-2.0

package catalog

// What the tests outside the package look at.

const MaxSummary = maxSummary
