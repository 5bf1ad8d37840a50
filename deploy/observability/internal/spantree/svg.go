// SPDX-License-Identifier: Apache-2.0

package spantree

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// Sizes in pixels.
const (
	width, margin = 1240, 16
	header        = 64
	rowHeight     = 44
	names         = 430 // where the bars begin
	indent        = 18
	least         = 2 // the width of a bar that is too short to see
)

// colors of services, in the order of the tree.
func colors() []string { return []string{"#8e44ad", "#0b5fa5", "#2e8b57", "#b8860b", "#16808a"} }

// told are the attributes that the picture has, in this order.
func told() []string {
	return []string{
		"mcp.method.name", "gen_ai.tool.name", "mcp.protocol.version", "jsonrpc.request.id", "outrigger.edge", "outrigger.error.code", "error.type",
		"outrigger.retry.attempt", "rpc.system.name", "rpc.response.status_code", "network.transport", "server.address", "http.response.status_code",
	}
}

// SVG draws the trace as a tree with a bar for each span.
func (t Trace) SVG() string {
	from, to := t[0].Start, t[0].End
	for _, s := range t {
		if s.Start.Before(from) {
			from = s.Start
		}
		if s.End.After(to) {
			to = s.End
		}
	}
	services := t.Services()
	var b strings.Builder
	height := header + rowHeight*len(t) + margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12">
<title>The span tree of one call</title>
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="24" font-size="16" font-weight="bold" fill="#222">%s</text>
<text x="%d" y="24" text-anchor="end" fill="#666">trace %s, %d spans, %s</text>
`, width, height, margin, html.EscapeString(strings.Join(services, " → ")), width-margin, html.EscapeString(t[0].Trace), len(t), lasted(to.Sub(from)))
	scale := float64(width-margin-names) / float64(max(to.Sub(from), 1))
	for i := range 5 {
		x := names + (width-margin-names)*i/4
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#eee"/>`, x, x, header-8, height-margin)
		anchor := map[int]string{0: "start", 4: "end"}[i]
		if anchor == "" {
			anchor = "middle"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s" fill="#666" font-size="10">%s</text>`+"\n", x, header-14, anchor, lasted(to.Sub(from)*time.Duration(i)/4))
	}
	for i, s := range t {
		row(&b, s, header+rowHeight*i, colors()[slices.Index(services, s.Service)%len(colors())],
			names+float64(s.Start.Sub(from))*scale, max(least, float64(s.End.Sub(s.Start))*scale))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// row draws one span: name and service on the left, the bar, and the attributes below it.
func row(b *strings.Builder, s Span, y int, color string, x, w float64) {
	left := margin + indent*s.Depth
	if s.Depth > 0 {
		fmt.Fprintf(b, `<path d="M%d %d v14 h8" fill="none" stroke="#bbb"/>`, left-10, y-6)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#222">%s</text>`, left+2, y+12, html.EscapeString(clipped(s.Name, (names-left)/8)))
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s" font-size="10">%s, %s</text>`+"\n", left+2, y+26, color, html.EscapeString(s.Service), strings.ToUpper(s.Kind))
	stroke := ""
	if s.Failed {
		stroke = ` stroke="#c0392b" stroke-width="2"`
	}
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="13" rx="2" fill="%s"%s/>`, x, y+2, w, color, stroke)
	label, anchor := x+w+6, "start"
	if label > width-80 {
		label, anchor = x-6, "end"
		if label < names+60 {
			label, anchor = x+6, "start"
		}
	}
	fill := "#333"
	if label == x+6 {
		fill = "#fff"
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="%s" fill="%s" font-size="10">%s</text>`, label, y+12, anchor, fill, lasted(s.End.Sub(s.Start)))
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#666" font-size="9.5">%s</text>`+"\n", names, y+28, html.EscapeString(clipped(s.tells(), (width-margin-names)*2/11)))
}

// tells are the attributes in one line.
func (s Span) tells() string {
	var out []string
	for _, name := range told() {
		if v, ok := s.Attributes[name]; ok {
			out = append(out, name+"="+v)
		}
	}
	if s.Links > 0 {
		out = append(out, fmt.Sprintf("links=%d", s.Links))
	}
	return strings.Join(out, "  ")
}

// lasted writes a duration with three digits.
func lasted(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1e3)
	default:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
}

func clipped(text string, n int) string {
	if r := []rune(text); len(r) > n && n > 1 {
		return string(r[:n-1]) + "…"
	}
	return text
}
