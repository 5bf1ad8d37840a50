// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"time"
)

// Goals of large catalogs that hold on any machine, and those that are for this one: they are shown beside the figures and
// are not checked.
const (
	grownMemory = 1.15
	grownCPU    = 0.3 // of the CPU time of the start

	grownTime      = 300 * time.Millisecond
	vastKilobytes  = 25
	vastReady      = 2 * time.Second
	thousandMegs   = 40
	bytesOfMeg     = 1e6
	bytesOfKilo    = 1e3
	catalogsHeader = "\n#### Large catalogs\n\n| subject | what | wanted | figure |\n|---|---|--:|--:|\n"
)

// CatalogPoint is what large catalogs took in one round. Sizes are resident bytes.
type CatalogPoint struct {
	// Thousand is a sidecar at rest with 1,000 tools, Vast one with as many as googleapis has, which was ready after Ready.
	Thousand, Vast           int64
	ThousandTools, VastTools int
	Ready                    time.Duration
	// Start is the CPU time until a catalog of GrownTools was at rest, Grown that of one small file more. GrownPeak is the most
	// memory meanwhile, GrownRest that before; those that end in Own are without pages of the executable, which a sidecar at
	// rest has dropped and reads back from the page cache when it works.
	Start, Grown               time.Duration
	GrownRest, GrownPeak       int64
	GrownRestOwn, GrownPeakOwn int64
	GrownTools                 int
}

// CatalogPoints are points by subject, one for each round. The zero value has none.
type CatalogPoints map[string][]CatalogPoint

// Add adds a point.
func (c *CatalogPoints) Add(subject string, p CatalogPoint) {
	if *c == nil {
		*c = CatalogPoints{}
	}
	(*c)[subject] = append((*c)[subject], p)
}

// of is one figure of a subject, by round.
func (c CatalogPoints) of(subject string, get func(CatalogPoint) float64) series {
	var out series
	for _, p := range c[subject] {
		out = append(out, get(p))
	}
	return out
}

func grownMemoryOf(p CatalogPoint) float64 { return float64(p.GrownPeakOwn) / float64(p.GrownRestOwn) }
func grownRSSOf(p CatalogPoint) float64    { return float64(p.GrownPeak) / float64(p.GrownRest) }
func grownCPUOf(p CatalogPoint) float64    { return float64(p.Grown) / float64(p.Start) }

// goals are those that are ratios of one run.
func (c CatalogPoints) goals() []Goal {
	if len(c[OfSidecar]) == 0 {
		return nil
	}
	memory, work := c.of(OfSidecar, grownMemoryOf), c.of(OfSidecar, grownCPUOf)
	tools := count(c[OfSidecar][0].GrownTools)
	return []Goal{
		{What: "one small file added to " + tools + " tools: its own memory at most, of that at rest", Wanted: "<= " + number(grownMemory), Figure: memory.spread(), Kept: memory.median() <= grownMemory},
		{What: "the same: CPU time, of that of the start", Wanted: "<= " + number(grownCPU), Figure: work.spread(), Kept: work.median() <= grownCPU},
	}
}

// table writes the figures of all builds.
func (c CatalogPoints) table(b *strings.Builder) {
	if len(c[OfSidecar]) == 0 {
		return
	}
	b.WriteString(catalogsHeader)
	for _, name := range []string{OfSidecar, OfOther} {
		if len(c[name]) == 0 {
			continue
		}
		first := c[name][0]
		for _, row := range []struct {
			what, wanted string
			get          func(CatalogPoint) float64
			unit         string
		}{
			{"one small file added to " + count(first.GrownTools) + " tools: CPU", grownTime.String(), func(p CatalogPoint) float64 { return float64(p.Grown.Milliseconds()) }, "ms"},
			{"the same: its own memory at most, of that at rest", number(grownMemory), grownMemoryOf, "times"},
			{"the same, with the pages of the executable", number(grownMemory), grownRSSOf, "times"},
			{count(first.VastTools) + " tools: at rest, each", fmt.Sprintf("%d KB", vastKilobytes), func(p CatalogPoint) float64 { return float64(p.Vast) / float64(p.VastTools) / bytesOfKilo }, "KB"},
			{"the same: ready", vastReady.String(), func(p CatalogPoint) float64 { return p.Ready.Seconds() }, "s"},
			{count(first.ThousandTools) + " tools: at rest", fmt.Sprintf("%d MB", thousandMegs), func(p CatalogPoint) float64 { return float64(p.Thousand) / bytesOfMeg }, "MB"},
		} {
			fmt.Fprintf(b, "| `%s` | %s | <= %s | %s %s |\n", name, row.what, row.wanted, c.of(name, row.get).spread(), row.unit)
		}
	}
}
