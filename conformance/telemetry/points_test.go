// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/conformance/telemetry/collector"
)

// conventions writes the metrics of the MCP conventions: each series with its number of values. How long things took is
// not the same in each run.
func conventions(points []collector.Point) string {
	points = slices.DeleteFunc(points, func(p collector.Point) bool { return !strings.HasPrefix(p.Name, "mcp.") || p.Service != serviceName })
	var lines []string
	for _, p := range points {
		lines = append(lines, fmt.Sprintf("%s %s: %d values\n", p.Name, collector.Labels(p.Attributes), p.Count))
	}
	slices.Sort(lines)
	slices.SortFunc(points, func(a, b collector.Point) int { return strings.Compare(a.Name, b.Name) })
	points = slices.CompactFunc(points, func(a, b collector.Point) bool { return a.Name == b.Name })
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "%s: %s in %s, bounds %v\n", p.Name, p.Type, p.Unit, p.Bounds)
	}
	return b.String() + strings.Join(lines, "")
}
