// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// lines draws series over time, the largest ones if there are many, and a legend.
func lines(b *strings.Builder, p Panel, at rect, w Window) {
	shown := slices.Clone(p.Series)
	slices.SortStableFunc(shown, func(x, y Series) int { return cmp.Compare(y.Max(), x.Max()) })
	shown = shown[:min(len(shown), maxLines)]
	if p.IsStacked {
		shown = stacked(shown)
	}
	top := scale(shown, p)
	inLegend := min(len(shown), maxLegend)
	plot := rect{axisWidth, titleHeight + 6, at.w - axisWidth - 12, at.h - titleHeight - 6 - 16 - legendLine*inLegend - 8}
	axes(b, p, plot, top, w)
	x := func(pt Point) float64 {
		return float64(plot.x) + float64(plot.w)*float64(pt.At.Sub(w.From))/float64(w.To.Sub(w.From))
	}
	y := func(v float64) float64 { return float64(plot.y+plot.h) - float64(plot.h)*min(1, v/top) }
	if p.Fail > 0 && p.Fail <= top {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#c0392b" stroke-dasharray="4 3"/>`+"\n", plot.x, plot.x+plot.w, y(p.Fail), y(p.Fail))
	}
	for i, s := range slices.Backward(shown) {
		for _, part := range unbroken(s, w) {
			course(b, part, colors()[i%len(colors())], p.IsStacked, float64(plot.y+plot.h), x, func(v Point) float64 { return y(v.Value) })
		}
	}
	legends(b, p, shown, at, inLegend)
}

// course draws one line, or the area below it. A single point is a dot.
func course(b *strings.Builder, part []Point, color string, isArea bool, bottom float64, x, y func(Point) float64) {
	if len(part) == 1 {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="1.5" fill="%s"/>`+"\n", x(part[0]), y(part[0]), color)
		return
	}
	var path strings.Builder
	for _, pt := range part {
		fmt.Fprintf(&path, "%.1f,%.1f ", x(pt), y(pt))
	}
	points := strings.TrimSpace(path.String())
	if isArea {
		fmt.Fprintf(b, `<polygon points="%.1f,%.1f %s %.1f,%.1f" fill="%s"/>`+"\n", x(part[0]), bottom, points, x(part[len(part)-1]), bottom, color)
		return
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n", points, color)
}

// unbroken splits a series where it has no values.
func unbroken(s Series, w Window) [][]Point {
	var out [][]Point
	from := 0
	for i := 1; i <= len(s.Points); i++ {
		if i == len(s.Points) || s.Points[i].At.Sub(s.Points[i-1].At) > w.Step*3/2 {
			out = append(out, s.Points[from:i])
			from = i
		}
	}
	return out
}

// stacked adds to each series those after it, so that the first is the sum.
func stacked(series []Series) []Series {
	sum := map[int64]float64{}
	out := slices.Clone(series)
	for i, s := range slices.Backward(series) {
		out[i].Points = slices.Clone(s.Points)
		for j, pt := range s.Points {
			sum[pt.At.UnixMilli()] += pt.Value
			out[i].Points[j].Value = sum[pt.At.UnixMilli()]
		}
	}
	return out
}

// scale is the top of the axis: a round number above all values.
func scale(series []Series, p Panel) float64 {
	if p.ShownPanel.Max > 0 {
		return p.ShownPanel.Max
	}
	top := 0.0
	for _, s := range series {
		top = max(top, s.Max())
	}
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top)))
	for _, step := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if top <= step*power {
			return step * power
		}
	}
	return top
}

func axes(b *strings.Builder, p Panel, plot rect, top float64, w Window) {
	const parts = 2
	for i := range parts + 1 {
		y := plot.y + plot.h - plot.h*i/parts
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#e5e7ea"/>`, plot.x, plot.x+plot.w, y, y)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#666" font-size="10">%s</text>`+"\n",
			plot.x-5, y+4, html.EscapeString(Format(top*float64(i)/parts, p.Unit)))
	}
	span := w.To.Sub(w.From)
	for i, anchor := range []string{"start", "middle", "end"} {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="#666" font-size="10">%.0f s</text>`+"\n",
			plot.x+plot.w*i/2, plot.y+plot.h+13, anchor, span.Seconds()*float64(i)/2)
	}
}

// legends names the largest series, with the last and the largest value.
func legends(b *strings.Builder, p Panel, shown []Series, at rect, n int) {
	values := map[string]Series{}
	for _, s := range p.Series {
		values[s.Name] = s
	}
	for i, s := range shown[:n] {
		y := at.h - legendLine*(n-i) + 4
		last, _ := values[s.Name].Last()
		name := clipped(s.Name, int(nameLength*float64(p.Width)))
		if more := len(p.Series) - n; i == n-1 && more > 0 {
			name += fmt.Sprintf("   (and %d more)", more)
		}
		fmt.Fprintf(b, `<rect x="10" y="%d" width="10" height="4" fill="%s"/>`, y-6, colors()[i%len(colors())])
		fmt.Fprintf(b, `<text x="26" y="%d" fill="#333" font-size="10">%s</text>`, y, html.EscapeString(name))
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#666" font-size="10">last %s, max %s</text>`+"\n",
			at.w-12, y, html.EscapeString(Format(last, p.Unit)), html.EscapeString(Format(values[s.Name].Max(), p.Unit)))
	}
}

func clipped(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
