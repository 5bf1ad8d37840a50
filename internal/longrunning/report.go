// SPDX-License-Identifier: Apache-2.0

package longrunning

import (
	"math"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxReport bounds the text of a report, in bytes.
const maxReport = 1024

// Report is what the metadata of an operation say of its progress.
type Report struct {
	// Text is a message in the metadata, or else the metadata as compact JSON, shortened to
	// 1 KiB; empty if there are no metadata.
	Text string
	// Percent is how much is done, 0 to 100, if HasPercent is set.
	Percent    float64
	HasPercent bool
}

// ReportOf reads the JSON of an operation's metadata, an object; nil has nothing to report.
// AIP-151 leaves the form of the metadata to the service, so it looks for the names of
// fields that services commonly use: a message (status_message, message ...) and a percentage
// (progress_percent, percent_complete ...), at the root or in a member "progress".
func ReportOf(metadata []byte) Report {
	var r Report
	var text, detail string
	r.read(metadata, func(name, value string) {
		switch name {
		case "statusmessage", "statusdetail", "statetext", "statemessage", "progressmessage":
			text = value
		case "message":
			detail = value
		}
	})
	if progress, ok := jsontext.Lookup(metadata, "progress"); ok && jsontext.IsObject(progress) {
		r.read(progress, func(string, string) {})
	}
	switch {
	case text != "":
		r.Text = shorten(text)
	case detail != "":
		r.Text = shorten(detail)
	case len(metadata) > len(jsontext.EmptyObject):
		r.Text = shorten(string(jsontext.Compact(nil, metadata)))
	}
	return r
}

// read looks at the members of an object for a percentage, and hands on the texts. Names are compared without case and
// underscores, because metadata may be written in either form of their names.
func (r *Report) read(object []byte, text func(name, value string)) {
	if !jsontext.IsObject(object) {
		return
	}
	for name, value := range jsontext.Members(object) {
		flat := strings.ToLower(strings.ReplaceAll(name, "_", ""))
		switch flat {
		case "progresspercent", "progresspercentage", "percentcomplete", "percentdone", "percent", "percentage", "progress":
			if percent, ok := number(value); ok {
				r.Percent, r.HasPercent = percent, true
			}
		default:
			if said, ok := jsontext.Text(value); ok && said != "" {
				text(flat, said)
			}
		}
	}
}

// number reads a percentage, which ProtoJSON writes as a number or, of 64 bits, as a string.
func number(value []byte) (float64, bool) {
	text, ok := jsontext.Text(value)
	if !ok {
		text = string(value)
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && n >= 0 && n <= 100
}

// shorten cuts a text to the bound, at the end of a character.
func shorten(text string) string {
	if len(text) <= maxReport {
		return text
	}
	return strings.ToValidUTF8(text[:maxReport-len("...")], "") + "..."
}
