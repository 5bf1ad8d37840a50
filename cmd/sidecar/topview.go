// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
)

// How a line looks where the terminal has colours: parameters of SGR. No line says anything by its look alone.
const (
	lookPlain = ""
	lookTitle = "1"
	lookHead  = "7"
	lookFault = "31"
	lookFaint = "2"
)

// topLine is a line of the view.
type topLine struct{ text, look string }

// topSize is that of a terminal. Without lines, all is shown, and no keys.
type topSize struct{ columns, lines int }

// The panes that scroll.
const (
	paneTools = iota
	paneCalls
	panes
)

// topView is what a person has chosen to see.
type topView struct {
	order    int // in topOrders
	filter   string
	pane     int
	offsets  [panes]int
	isTyping bool // the filter
	isPaused bool
	faults   bool // only what fails
	help     bool
}

// maxFilter is how many characters a filter has at most.
const maxFilter = 100

// press is the view after a key, of those that keysOf returns.
func (v topView) press(key string) (after topView, quits bool) {
	switch {
	case key == "ctrl-c":
		return v, true
	case v.isTyping:
		return v.typed(key), false
	case v.help:
		v.help = false
		return v, false
	}
	switch key {
	case "q":
		return v, true
	case "p", " ":
		v.isPaused = !v.isPaused
	case "s":
		v.order = (v.order + 1) % len(topOrders())
	case "f":
		v.faults = !v.faults
	case "/":
		v.isTyping, v.filter = true, ""
	case "escape":
		v.filter = ""
	case "?", "h":
		v.help = true
	case "tab":
		v.pane = (v.pane + 1) % panes
	case "up", "k":
		v.offsets[v.pane]--
	case "down", "j":
		v.offsets[v.pane]++
	case "page up":
		v.offsets[v.pane] -= 10
	case "page down":
		v.offsets[v.pane] += 10
	}
	return v, false
}

// typed is the view after a key that belongs to the filter.
func (v topView) typed(key string) topView {
	switch {
	case key == "enter":
		v.isTyping = false
	case key == "escape":
		v.isTyping, v.filter = false, ""
	case key == "backspace":
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case utf8.RuneCountInString(key) == 1 && utf8.RuneCountInString(v.filter) < maxFilter:
		v.filter += key
	}
	return v
}

// keysOf are the keys behind bytes from a terminal. Sequences that name no key of ours are left out.
func keysOf(input []byte) []string {
	named := map[string]string{
		"\x03": "ctrl-c", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape",
		"\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
	}
	var keys []string
	for text := string(input); text != ""; {
		_, n := utf8.DecodeRuneInString(text)
		if strings.HasPrefix(text, "\x1b[") || strings.HasPrefix(text, "\x1bO") {
			for n = 2; n < len(text) && (text[n] < 0x40 || text[n] > 0x7e); n++ { // up to the final byte of ECMA-48
			}
			n = min(n+1, len(text))
		}
		key := text[:n]
		if name, ok := named[key]; ok {
			keys = append(keys, name)
		} else if r, _ := utf8.DecodeRuneInString(key); len(key) == utf8.RuneLen(r) && unicode.IsPrint(r) {
			keys = append(keys, key)
		}
		text = text[n:]
	}
	return keys
}

// render draws a state as the lines of a terminal, at most as many as it has. The view comes back with offsets that exist.
func (s topState) render(v topView, size topSize) ([]topLine, topView) {
	out := s.head(v, size.columns)
	if v.help {
		for _, line := range topHelp() {
			out = append(out, topLine{cut(line, size.columns), lookPlain})
		}
		return fit(out, size.lines, topLine{cut("Any key goes back.", size.columns), lookFaint}), v
	}
	// The parts that follow get what is left, and one line each to be apart.
	const apart = 4 // two blank lines, two heads
	room := math.MaxInt
	if size.lines > 0 {
		out = out[:min(len(out), max(size.lines/3, 2))]
		room = max(size.lines-len(out)-apart-1, 0)
	}
	tools, calls := s.toolRows(v), s.callRows(v)
	forTools := min(len(tools), max(room*2/5, room-len(calls)))
	out = append(out, topLine{})
	out = append(out, v.table(paneTools, toolColumns(), tools, size.columns, forTools)...)
	out = append(out, topLine{})
	out = append(out, v.table(paneCalls, callColumns(), calls, size.columns, room-forTools)...)
	v.offsets[paneTools] = within(v.offsets[paneTools], len(tools)-forTools)
	v.offsets[paneCalls] = within(v.offsets[paneCalls], len(calls)-(room-forTools))
	if size.lines == 0 {
		return out, v
	}
	return fit(out, size.lines, v.foot(size.columns)), v
}

func within(offset, most int) int { return max(min(offset, most), 0) }

// fit fills or cuts a screen, so that the last line is at its foot.
func fit(lines []topLine, height int, foot topLine) []topLine {
	if height <= 0 {
		return lines
	}
	for len(lines) < height-1 {
		lines = append(lines, topLine{})
	}
	return append(lines[:height-1:height-1], foot)
}

func topHelp() []string {
	return []string{
		"",
		"q       quit                      p       pause, and go on",
		"s       sort tools by another column",
		"f       only what fails",
		"/       filter by tool, caller, operator, edge, operation or code:",
		"        Enter keeps the filter, Escape clears it",
		"j k     scroll by a line, as the arrows do; by ten with Page Down and Page Up",
		"Tab     scroll the other table",
		"",
		"Rates and percentiles are those of the last " + topWindow.String() + ". OWN is the sidecar's own",
		"share of a call: the time without that of the backend and of users.",
	}
}

// foot is the last line of the screen.
func (v topView) foot(columns int) topLine {
	if v.isTyping {
		return topLine{cut("Filter: "+v.filter+"_", columns), lookTitle}
	}
	text := "q quit  p pause  s sort: " + topOrders()[v.order] + "  f failures  / filter  j k scroll  Tab table  ? help"
	if v.isPaused {
		text = "PAUSED  " + text
	}
	return topLine{cut(text, columns), lookFaint}
}

// head is what concerns the whole sidecar, and what is the matter with it.
func (s topState) head(v topView, columns int) []topLine {
	m := s.last
	title := []string{cellOf(s.server.GetName()), cellOf(s.server.GetVersion())}
	if m.GetState() != "" {
		title = append(title, cellOf(m.GetState()))
	}
	if m != nil && !m.GetReady() && m.GetState() != "not ready" {
		title = append(title, "not ready")
	}
	title = append(title, cellOf(cmp.Or(m.GetTrust(), s.server.GetTrust())), count(int(m.GetCatalogTools()), "tool"), count(int(m.GetWatchers()), "watcher"))
	if m.GetStarted() != nil {
		title = append(title, "up "+seconds(max(m.GetTime().AsTime().Sub(m.GetStarted().AsTime()).Seconds(), 0)))
	}
	if v.filter != "" {
		title = append(title, "filter: "+v.filter)
	}
	if v.faults {
		title = append(title, "only failures")
	}
	calls := []string{"calls -/s", "errors -/s", "p50 -", "p95 -"}
	if _, all, ok := s.rates(); ok {
		calls = []string{
			"calls " + perSecond(all.calls) + "/s", "errors " + perSecond(all.failed) + "/s",
			"p50 " + all.took.text(p50), "p95 " + all.took.text(p95),
		}
	}
	calls = append(calls, fmt.Sprintf("in flight %d", m.GetInFlightTotal()), fmt.Sprintf("streams %d", m.GetStreams()),
		fmt.Sprintf("tasks %d", m.GetTasks()), fmt.Sprintf("sessions %d", m.GetSessions()))
	if n := m.GetApprovals(); n > 0 {
		calls = append(calls, fmt.Sprintf("waiting for approval %d", n))
	}
	out := []topLine{{strings.Join(title, "  "), lookTitle}, {strings.Join(calls, "  "), lookPlain}}
	if s.away != "" {
		out = slices.Insert(out, 1, topLine{"The sidecar is away; trying again. " + cellOf(s.away), lookFault})
	}
	for _, fault := range s.faults() {
		out = append(out, topLine{fault, lookFault})
	}
	for i := range out {
		out[i].text = cut(out[i].text, columns)
	}
	return out
}

const (
	// nearLimit is the share of a limit from which it is shown.
	nearLimit = 0.8
	// nearEnd is how long before its end a certificate is shown.
	nearEnd = 30 * 24 * time.Hour
)

// faults are the checks that fail, the certificates that end soon, and the limits that are nearly used up or refused something
// in the window.
func (s topState) faults() []string {
	var out []string
	for _, c := range s.last.GetChecks() {
		if !c.GetOk() {
			out = append(out, "check "+cellOf(c.GetName())+" fails: "+cellOf(c.GetDetail()))
		}
	}
	for _, c := range s.last.GetCertificates() {
		left := c.GetNotAfter().AsTime().Sub(s.last.GetTime().AsTime())
		switch {
		case left <= 0:
			out = append(out, "certificate "+cellOf(c.GetName())+" has ended")
		case left < nearEnd:
			out = append(out, "certificate "+cellOf(c.GetName())+" ends in "+seconds(left.Seconds()))
		}
	}
	before := map[string]uint64{}
	if len(s.samples) > 0 {
		for _, l := range s.samples[0].GetLimits() {
			before[l.GetName()] = l.GetRefused()
		}
	}
	for _, l := range s.last.GetLimits() {
		was, known := before[l.GetName()]
		refused := l.GetRefused() - was
		if !known || was > l.GetRefused() {
			refused = 0
		}
		isNear := l.Used != nil && l.GetMost() > 0 && l.GetUsed() >= nearLimit*l.GetMost()
		if !isNear && refused == 0 {
			continue
		}
		text := "limit " + cellOf(l.GetName())
		if l.Used != nil {
			text += ": " + number(l.GetUsed()) + " of " + number(l.GetMost())
		} else {
			text += " of " + number(l.GetMost())
		}
		if refused > 0 {
			text += fmt.Sprintf(", refused %d", refused)
		}
		out = append(out, text)
	}
	return out
}

// topRow is a row of a table. One with a single cell is a note.
type topRow struct {
	cells []string
	look  string
}

// topColumn is a column of a table.
type topColumn struct {
	head    string
	width   int // 0: what is left
	isRight bool
	from    int // columns of the terminal from which it is shown
}

func toolColumns() []topColumn {
	return []topColumn{
		{head: "TOOL"}, {"CALLS/S", 8, true, 0}, {"ERRORS/S", 8, true, 0}, {"P50", 8, true, 60}, {"P95", 8, true, 0}, {"IN FLIGHT", 9, true, 60},
	}
}

// toolRows are the tools that the view shows.
func (s topState) toolRows(v topView) []topRow {
	var out []topRow
	tools, _, ok := s.rates()
	sortRates(tools, topOrders()[v.order])
	for _, r := range tools {
		if v.faults && r.failed == 0 || !hasText(v.filter, r.name) {
			continue
		}
		row := topRow{cells: []string{cellOf(r.name), "-", "-", r.took.text(p50), r.took.text(p95), strconv.FormatInt(r.inFlight, 10)}}
		if ok {
			row.cells[1], row.cells[2] = perSecond(r.calls), perSecond(r.failed)
		}
		if r.failed > 0 {
			row.look = lookFault
		}
		out = append(out, row)
	}
	return out
}

func callColumns() []topColumn {
	return []topColumn{
		{"AGE", 7, true, 96}, {"CALLER", 16, false, 60}, {head: "CALL"}, {"EDGE", 8, false, 106}, {"TOOK", 8, true, 50}, {"OWN", 8, true, 72},
		{"CODE", 22, false, 0},
	}
}

// callRows are the calls that the view shows: those in flight, then those that ended, the latest first.
func (s topState) callRows(v topView) []topRow {
	var out []topRow
	for i, c := range slices.Concat(s.last.GetInFlight(), s.ended) {
		isInFlight := i < len(s.last.GetInFlight())
		isFault := !isInFlight && c.GetCode() != "OK"
		if v.faults && !isFault || !hasText(v.filter, c.GetTool(), c.GetCaller(), c.GetOperator(), c.GetEdge(), c.GetOperation(), c.GetCode()) {
			continue
		}
		row := topRow{cells: callCells(c, s.last.GetTime().AsTime(), isInFlight)}
		switch {
		case isFault:
			row.look = lookFault
		case isInFlight:
			row.look = lookTitle
		}
		out = append(out, row)
	}
	if more := int64(s.last.GetInFlightTotal()) - int64(len(s.last.GetInFlight())); more > 0 || s.omitted > 0 {
		out = append(out, topRow{[]string{fmt.Sprintf("not listed: %d more in flight, %d more that ended", max(more, 0), s.omitted)}, lookFaint})
	}
	return out
}

func callCells(c *adminv1.Call, now time.Time, isInFlight bool) []string {
	what := cellOf(c.GetTool())
	if c.GetTool() == "" {
		what = "(" + cellOf(c.GetOperation()) + ")"
	}
	caller := cellOf(c.GetCaller())
	if c.GetOperator() != "" {
		caller = cellOf(c.GetOperator()) + " as " + caller
	}
	code := cellOf(c.GetCode())
	if isInFlight {
		code = "(" + cellOf(cmp.Or(c.GetStep(), "in flight")) + ")"
	}
	took, upstream := c.GetTook().AsDuration(), c.GetUpstream().AsDuration()
	return []string{
		seconds(max(now.Sub(c.GetBegan().AsTime()), 0).Seconds()), caller, what, cellOf(c.GetEdge()),
		seconds(took.Seconds()), seconds(max(took-upstream, 0).Seconds()), code,
	}
}

// hasText reports whether one of the texts has the filter in it, in any case.
func hasText(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	return filter == "" || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text[:min(len(text), maxForeign)]), filter)
	})
}

// table draws the rows of a pane that fit below a head.
func (v topView) table(pane int, columns []topColumn, rows []topRow, width, height int) []topLine {
	columns = slices.Clone(columns)
	left := width
	for i, c := range columns {
		if c.from > width {
			columns[i].width = -1
		} else {
			left -= c.width + min(i, 1)*2
		}
	}
	left = max(left, 1)
	line := func(cells []string) string {
		if len(cells) == 1 {
			return cut(cells[0], width)
		}
		var b strings.Builder
		for i, c := range columns {
			if c.width < 0 {
				continue
			}
			if b.Len() > 0 {
				b.WriteString("  ")
			}
			text, room := cells[i], cmp.Or(c.width, left)
			text = cut(text, room)
			padding := strings.Repeat(" ", max(room-columnsOf(text), 0))
			if c.isRight {
				text, padding = padding, text
			}
			b.WriteString(text + padding)
		}
		return cut(strings.TrimRight(b.String(), " "), width)
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	from := within(v.offsets[pane], len(rows)-height)
	to := from + min(height, len(rows)-from)
	if from > 0 || to < len(rows) {
		at := slices.IndexFunc(columns, func(c topColumn) bool { return c.width == 0 })
		heads[at] += fmt.Sprintf(" %d-%d of %d", min(from+1, to), to, len(rows))
	}
	out := []topLine{{line(heads), lookHead}}
	for _, row := range rows[from:to] {
		out = append(out, topLine{line(row.cells), row.look})
	}
	return out
}

// maxForeign bounds the bytes of a foreign text that are looked at for every drawing: far more than any terminal has columns.
const maxForeign = 2048

// cellOf is a foreign text that cannot change the terminal: see cell.
func cellOf(text string) string { return cell(text[:min(len(text), maxForeign)]) }

// text is a quantile as a person reads it.
func (d *durations) text(share float64) string {
	if s := d.quantile(share); !math.IsInf(s, 1) || len(d.bounds) == 0 {
		return seconds(s)
	}
	return ">" + seconds(d.bounds[len(d.bounds)-1])
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// perSecond is a rate with as many digits as matter.
func perSecond(rate float64) string {
	if rate >= 100 || rate == 0 {
		return strconv.FormatFloat(rate, 'f', 0, 64)
	}
	return strconv.FormatFloat(rate, 'f', 1, 64)
}

// seconds is a time in the unit in which people say it.
func seconds(s float64) string {
	format := func(f float64, unit string) string {
		digits := 0
		if f < 10 {
			digits = 1
		}
		return strconv.FormatFloat(f, 'f', digits, 64) + unit
	}
	switch {
	case math.IsNaN(s):
		return "-"
	case s < 0.9995:
		return format(s*1e3, " ms")
	case s < 2*60:
		return format(s, " s")
	case s < 2*60*60:
		return format(s/60, " min")
	case s < 2*24*60*60:
		return format(s/3600, " h")
	}
	return format(s/86400, " d")
}
