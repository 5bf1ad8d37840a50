// SPDX-License-Identifier: Apache-2.0

// Package approval keeps calls that wait until others approve them. A call is asked about once, runs once where it is approved, and
// never where it is denied or expired, whatever process ends in between: each step is one compare-and-set of its record.
package approval
