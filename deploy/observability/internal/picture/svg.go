// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Sizes in pixels. The grid has 24 columns.
const (
	column, line = 52, 27
	gap          = 8
	margin       = 16
	header       = 44
	rowTitle     = 30
	titleHeight  = 24
	legendLine   = 15
	axisWidth    = 54
	// maxLegend and maxLines bound what is drawn of one panel; the picture says how many more there are.
	maxLegend, maxLines = 4, 12
	// nameLength is how much of a name fits, in characters for each column of width.
	nameLength = 3.4
)

// colors differ in hue and lightness.
func colors() []string {
	return []string{"#0b5fa5", "#d1642c", "#2e8b57", "#8e44ad", "#c0392b", "#16808a", "#b8860b", "#5d6d7e", "#e377c2", "#7f9c1f", "#1f3a93", "#a0522d"}
}

// SVG draws the rows of a dashboard whose titles are named; no names mean all rows.
func SVG(title, subtitle string, panels []Panel, w Window, rows ...string) string {
	var body strings.Builder
	y := header
	drawing, top := false, 0
	bottom := 0
	for _, p := range panels {
		if p.Type == "row" {
			if drawing {
				y = bottom
			}
			if drawing = len(rows) == 0 || slices.Contains(rows, p.Title); drawing {
				fmt.Fprintf(&body, `<text x="%d" y="%d" font-size="15" font-weight="bold" fill="#222">%s</text>`+"\n", margin, y+20, html.EscapeString(p.Title))
				top = y + rowTitle - (p.Y+1)*line
				bottom = y + rowTitle
			}
			continue
		}
		if drawing {
			box := rect{margin + p.X*column, top + p.Y*line, p.Width*column - gap, p.Height*line - gap}
			draw(&body, p, box, w)
			bottom = max(bottom, box.y+box.h+gap)
		}
	}
	width, height := 2*margin+24*column-gap, bottom+margin
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11">
<title>%s</title>
<rect width="100%%" height="100%%" fill="#f4f5f7"/>
<text x="%d" y="28" font-size="20" font-weight="bold" fill="#222">%s</text>
<text x="%d" y="28" text-anchor="end" fill="#555">%s</text>
%s</svg>
`, width, height, html.EscapeString(title), margin, html.EscapeString(title), width-margin, html.EscapeString(subtitle), body.String())
}

// rect is a place in the picture.
type rect struct{ x, y, w, h int }

func draw(b *strings.Builder, p Panel, at rect, w Window) {
	fmt.Fprintf(b, `<g transform="translate(%d,%d)"><rect width="%d" height="%d" rx="3" fill="#fff" stroke="#d9dce1"/>`+"\n", at.x, at.y, at.w, at.h)
	fmt.Fprintf(b, `<text x="10" y="17" font-size="12" font-weight="bold" fill="#333">%s</text>`+"\n", html.EscapeString(p.Title))
	switch {
	case len(p.Series) == 0:
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#999">no data</text>`+"\n", at.w/2, at.h/2+8)
	case p.Type == "stat":
		number(b, p, at)
	case p.Type == "table":
		table(b, p, at)
	default:
		lines(b, p, at, w)
	}
	b.WriteString("</g>\n")
}

// number draws the last value, and its course below.
func number(b *strings.Builder, p Panel, at rect) {
	last, _ := p.Series[0].Last()
	color := "#2e8b57"
	if p.Warn > 0 && last >= p.Warn {
		color = "#b8860b"
	}
	if p.Fail > 0 && last >= p.Fail {
		color = "#c0392b"
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-size="26" fill="%s">%s</text>`+"\n",
		at.w/2, at.h/2+10, color, html.EscapeString(Format(last, p.Unit)))
	s := p.Series[0]
	if top := s.Max(); top > 0 && len(s.Points) > 1 {
		var path strings.Builder
		for i, pt := range s.Points {
			fmt.Fprintf(&path, "%.1f,%.1f ", 6+float64(at.w-12)*float64(i)/float64(len(s.Points)-1), float64(at.h)-5-22*pt.Value/top)
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-opacity="0.5"/>`+"\n", strings.TrimSpace(path.String()), color)
	}
}

// table draws a row for each instance.
func table(b *strings.Builder, p Panel, at rect) {
	var instances []string
	cells := map[string]map[int]float64{}
	for _, s := range p.Series {
		name := s.Labels["instance"]
		if cells[name] == nil {
			cells[name] = map[int]float64{}
			instances = append(instances, name)
		}
		cells[name][s.Query], _ = s.Last()
	}
	slices.Sort(instances)
	width := (at.w - 20) / (len(p.Queries) + 1)
	text := func(column, y int, value string, isBold bool) {
		weight := ""
		if isBold {
			weight = ` font-weight="bold" font-size="9.5"`
		}
		fmt.Fprintf(b, `<text x="%d" y="%d"%s>%s</text>`+"\n", 10+column*width, y, weight, html.EscapeString(value))
	}
	text(0, 44, "Instance", true)
	for i, q := range p.Queries {
		text(i+1, 44, q.Legend, true)
	}
	for row, name := range instances {
		y := 64 + row*20
		text(0, y, name, false)
		for i, q := range p.Queries {
			if v, ok := cells[name][i]; ok {
				text(i+1, y, Format(v, p.Units[q.Legend]), false)
			}
		}
	}
}
