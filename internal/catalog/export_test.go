// SPDX-License-Identifier: Apache-2.0

package catalog

// What the tests outside the package look at.

const MaxSummary = maxSummary

// ParseOutputSchemas reads the name of a way to show output schemas.
func ParseOutputSchemas(name string) (OutputSchemas, error) { return parseOutputSchemas(name) }
