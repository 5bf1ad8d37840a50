// SPDX-License-Identifier: Apache-2.0

package catalog

import "context"

// What the tests outside the package look at.

const MaxSummary = maxSummary

// ParseOutputSchemas reads the name of a way to show output schemas.
func ParseOutputSchemas(name string) (OutputSchemas, error) { return parseOutputSchemas(name) }

// Register is Put without the version that it replaced.
func (l *Live) Register(ctx context.Context, r Registration) (tool *Tool, created bool, err error) {
	placed, err := l.Put(ctx, r)
	return placed.Tool, placed.Created, err
}
