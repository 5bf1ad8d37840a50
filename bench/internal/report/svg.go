// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strings"
)

// Sizes of a chart, in pixels.
const (
	chartWidth, chartHeight     = 440, 300
	chartLeft, chartRight       = 64, 16
	chartTop, chartBottom       = 40, 56
	plotWidth                   = chartWidth - chartLeft - chartRight
	plotHeight                  = chartHeight - chartTop - chartBottom
	gridLines                   = 4
	legendStep, legendTextShift = 110, 18
)

// chart is a line chart with a logarithmic horizontal axis.
type chart struct {
	title, xTitle string
	curves        Curves
	y             func(LoadPoint) float64
	format        func(float64) string
}

// SVG draws goodput by callers and by the offered rate, side by side.
func (s *Saturation) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", 2*chartWidth, chartHeight)
	b.WriteString("<title>Goodput under load</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n")
	(&chart{"Calls answered per second", "callers in closed loops", s.Closed, goodput, number}).draw(&b, 0)
	(&chart{"Share of the capacity that is answered", "offered rate, times the capacity", s.Open, ofCapacity, percent}).draw(&b, chartWidth)
	b.WriteString("</svg>\n")
	return b.String()
}

// chartSeries are the names of the lines with their colors, which differ in lightness as well.
func chartSeries() []struct{ name, color string } {
	return []struct{ name, color string }{{OfSidecar, "#0b5fa5"}, {OfProxy, "#9a9a9a"}, {OfOther, "#d1642c"}}
}

func (c *chart) draw(b *strings.Builder, left int) {
	least, most, top := math.Inf(1), 0.0, 0.0
	for _, s := range chartSeries() {
		for _, x := range c.curves.xs(s.name) {
			least, most = min(least, x), max(most, x)
			top = max(top, c.curves.at(s.name, x, c.y).median())
		}
	}
	if most == 0 || top == 0 {
		return
	}
	top *= 1.05
	fmt.Fprintf(b, `<g transform="translate(%d,0)">`+"\n", left)
	fmt.Fprintf(b, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", chartLeft, c.title)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", chartLeft+plotWidth/2, chartHeight-chartBottom+32, c.xTitle)
	toX := func(x float64) float64 {
		if least == most {
			return chartLeft
		}
		return chartLeft + plotWidth*math.Log(x/least)/math.Log(most/least)
	}
	toY := func(y float64) float64 { return chartTop + plotHeight*(1-y/top) }
	for i := range gridLines + 1 {
		y := top * float64(i) / gridLines
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, chartLeft, chartLeft+plotWidth, toY(y), toY(y))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", chartLeft-6, toY(y)+4, c.format(y))
	}
	for i, s := range chartSeries() {
		if len(c.curves[s.name]) == 0 {
			continue
		}
		c.line(b, s.name, s.color, toX, toY)
		x := chartLeft + i*legendStep
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="3" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, chartHeight-12, s.color, x+legendTextShift, chartHeight-8, s.name)
	}
	b.WriteString("</g>\n")
}

func (c *chart) line(b *strings.Builder, name, color string, toX, toY func(float64) float64) {
	var points []string
	for _, x := range c.curves.xs(name) {
		px, py := toX(x), toY(c.curves.at(name, x, c.y).median())
		points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, px, py, color)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", px, chartHeight-chartBottom+16, number(x))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), color)
}
