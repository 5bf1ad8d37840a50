// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/truncate"
)

// ReducedKey is the member of a result's _meta that says how it was cut: {"bytes", "budget", "cut", "more", "uri", "until", "content"}.
// "bytes" is the size of the whole. "cut" has {"path", "kept", "of"} for a list or a map of the data, and {"path"} for a member that is
// not there; "more" counts further places. "uri" and "until" are there if the whole can be read. "content" has {"path", "bytes", "kept",
// "of", "uri", "until"} for each block of content that was cut, or replaced by a text.
const ReducedKey = "dev.outrigger/reduced"

// What is said about a result that is larger than its caller wants it, because the schema of the tool leaves no choice.
const (
	AllFields = "All fields are shown, because without some of them the result would not keep to the tool's output schema."
	// OtherFields and MaskLost are said about results of calls that are over.
	OtherFields = "All fields are shown, because the result does not have the fields any more that the call asked for."
	MaskLost    = "All fields are shown, because the field mask of the call was too long to be kept with the operation."

	tooLarge = "This result has %d bytes, more than its budget of %d. Nothing was left out, because the tool's output schema requires what is there."
)

// TooLarge is what is said about a result that cannot be cut to its budget.
func TooLarge(size, budget int) string { return fmt.Sprintf(tooLarge, size, budget) }

// Kind is what was cut.
type Kind uint8

// The kinds. All but the first are blocks of content: lines of a text are left out, and others as a whole.
const (
	KindData Kind = iota
	KindText
	KindImage
	KindAudio
	KindResource
)

// Reduction is what there is to say about a result that was cut, or about a block of its content.
type Reduction struct {
	// Size is that of the whole, in bytes, and Budget what it was cut to.
	Size, Budget int
	// Report says what was left out of data.
	Report truncate.Report
	// URI is where the whole can be read until a time; empty where it cannot.
	URI   string
	Until time.Time
	// Kind is what was cut.
	Kind Kind
	// Path is the JSON Pointer of a block of content in the result, and Media its media type.
	Path, Media string
	// Kept and Of count the lines of a text: those that are left, and those that there were.
	Kept, Of int
	// IsCallers is set where the caller chose the budget, and not an operator.
	IsCallers bool
	// Through is set for a call by way of catalog.call, which has an argument for the fields.
	Through bool
	// IsFetched is set for a result that is fetched as the call wanted it: it is too late to choose its fields.
	IsFetched bool
	// Example is a field mask that this result may have, from [Example]; empty for none.
	Example string
	// PageSize and NextPage are the names of the fields of a method that lists in pages; empty for others.
	PageSize, NextPage string
}

// MediaType is that of the whole.
func (r *Reduction) MediaType() string {
	if r.Kind == KindData {
		return "application/json"
	}
	return r.Media
}

// CutText leaves out the lines of a text that do not fit into so many bytes.
func (r *Reduction) CutText(text *outriggerv1.TextContent, most int) {
	whole := text.GetText()
	text.Text = whole[:strings.LastIndexByte(whole[:most], '\n')+1]
	r.Kept, r.Of = strings.Count(text.GetText(), "\n"), strings.Count(strings.TrimSuffix(whole, "\n"), "\n")+1
}

func (r *Reduction) end() string { return r.Until.UTC().Format(time.RFC3339) }

// maxShown is how many places a text names.
const maxShown = 4

// Text says what was left out, and how to get it.
func (r *Reduction) Text() string {
	switch r.Kind {
	case KindData:
		return r.dataText()
	case KindText:
		return fmt.Sprintf("This result was cut to its budget of %d bytes; the whole has %d. Left out: all but the first %d of %d lines in %s/text.", r.Budget, r.Size, r.Kept, r.Of, r.Path) + r.wholeText()
	case KindImage:
		return r.leftOut("An image")
	case KindAudio:
		return r.leftOut("Audio")
	default:
		return r.leftOut("An embedded resource")
	}
}

// dataText is Text for data.
func (r *Reduction) dataText() string {
	var out strings.Builder
	fmt.Fprintf(&out, "This result was cut to its budget of %d bytes; the whole has %d. Left out:", r.Budget, r.Size)
	for i, cut := range r.Report.Cuts {
		if i == maxShown {
			fmt.Fprintf(&out, " and more in %d places;", len(r.Report.Cuts)+r.Report.More-maxShown)
			break
		}
		if cut.IsMember {
			fmt.Fprintf(&out, " %s;", cut.Path)
		} else {
			fmt.Fprintf(&out, " all but the first %d of %d in %s;", cut.Kept, cut.Of, placeName(cut.Path))
		}
	}
	text := strings.TrimSuffix(out.String(), ";") + "." + r.wholeText()
	if r.PageSize != "" {
		text += fmt.Sprintf(" Or call again with a smaller %s: the %s of this result goes on behind what was left out.", r.PageSize, r.NextPage)
	}
	if r.IsFetched {
		return text
	}
	text += " A call may name the fields that it needs in "
	where, key := "_meta", FieldsKey
	if r.Through {
		where, key = "the argument "+FieldsArgument, FieldsArgument
	}
	switch {
	case r.Example != "":
		return text + where + `, such as "` + key + `": ` + string(jsontext.AppendString(nil, r.Example)) + "."
	case r.Through:
		return text + where + ", as a field mask."
	default:
		return text + where + ", as a field mask in " + key + "."
	}
}

// wholeText says where the whole is; nothing where it cannot be read.
func (r *Reduction) wholeText() string {
	if r.URI == "" {
		return ""
	}
	return fmt.Sprintf(" The whole can be read until %s with resources/read from %s, or in parts, with ?offset=0&length=%d added to that URI.", r.end(), r.URI, r.Budget)
}

// leftOut is Text for a block that cannot be cut.
func (r *Reduction) leftOut(what string) string {
	text := fmt.Sprintf("%s was left out here: %s, %d bytes, too large for this result's budget of %d bytes.", what, r.Media, r.Size, r.Budget)
	if r.URI != "" {
		text += fmt.Sprintf(" It can be read until %s with resources/read from %s.", r.end(), r.URI)
	}
	if r.IsCallers {
		return text + " The call set this budget in _meta " + BudgetKey + "; it may set a larger one."
	}
	return text + " The operator of the sidecar can raise it: result_budget of the tool, or --result-budget."
}

// placeName is a JSON Pointer as a text names it.
func placeName(pointer string) string {
	if pointer == "" {
		return "the result"
	}
	return pointer
}

// SetMeta adds the member to the _meta of a result whose data were cut, or blocks of its content; data is nil for none.
func SetMeta(result *outriggerv1.ToolResult, data *Reduction, content []Reduction) error {
	member, err := member(data, content)
	if err != nil {
		return err
	}
	meta, err := mcpjson.AppendMeta(nil, result, member)
	if err != nil {
		return fmt.Errorf("fit: the _meta of a result: %w", err)
	}
	result.MetaForm = &outriggerv1.ToolResult_MetaJson{MetaJson: meta}
	return nil
}

// place is an entry of "cut" or "content".
type place struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes,omitempty"`
	Kept  *int   `json:"kept,omitempty"`
	Of    *int   `json:"of,omitempty"`
	URI   string `json:"uri,omitempty"`
	Until string `json:"until,omitempty"`
}

// member is the member of _meta, without braces.
func member(data *Reduction, content []Reduction) ([]byte, error) {
	about := struct {
		Bytes   int     `json:"bytes"`
		Budget  int     `json:"budget"`
		Cut     []place `json:"cut"`
		More    int     `json:"more,omitempty"`
		URI     string  `json:"uri,omitempty"`
		Until   string  `json:"until,omitempty"`
		Content []place `json:"content,omitempty"`
	}{Cut: []place{}}
	if data != nil {
		about.Bytes, about.Budget, about.More, about.URI = data.Size, data.Budget, data.Report.More, data.URI
		about.Until = data.until()
		for i := range data.Report.Cuts {
			cut := &data.Report.Cuts[i]
			at := place{Path: cut.Path}
			if !cut.IsMember {
				at.Kept, at.Of = &cut.Kept, &cut.Of
			}
			about.Cut = append(about.Cut, at)
		}
	}
	for i := range content {
		block := &content[i]
		about.Budget = block.Budget
		if data == nil {
			about.Bytes += block.Size
		}
		at := place{Path: block.Path, Bytes: block.Size, URI: block.URI, Until: block.until()}
		if block.Kind == KindText {
			at.Kept, at.Of = &block.Kept, &block.Of
		}
		about.Content = append(about.Content, at)
	}
	body, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	return append([]byte(`"`+ReducedKey+`":`), body...), nil
}

// until is when the whole cannot be read any more; empty where it cannot be read.
func (r *Reduction) until() string {
	if r.URI == "" {
		return ""
	}
	return r.end()
}

// Link is the content that links to the whole; nil where it cannot be read.
func (r *Reduction) Link(tool string) []*outriggerv1.ContentBlock {
	if r.URI == "" {
		return nil
	}
	size := int64(r.Size)
	return []*outriggerv1.ContentBlock{{Block: &outriggerv1.ContentBlock_ResourceLink{ResourceLink: &outriggerv1.ResourceLink{
		Uri: r.URI, Name: tool + " result", MimeType: r.MediaType(), Size: &size,
		Description: fmt.Sprintf("The whole: %d bytes, until %s", size, r.end()),
	}}}}
}

// Shares divides a budget among things of so many bytes: each has what it needs up to an equal share, and what one does not need is for
// the larger ones.
func Shares(sizes []int, budget int) []int {
	bySize := make([]int, len(sizes))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return sizes[a] - sizes[b] })
	out := make([]int, len(sizes))
	for n, i := range bySize {
		out[i] = min(sizes[i], budget/(len(sizes)-n))
		budget -= out[i]
	}
	return out
}

// Text is content that is a text.
func Text(text string) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: text}}}
}

// SetData puts other data into a result, and a note about them beside it: a text, and what links to the whole. isSame tells a text
// that repeats the data that were there, which is replaced too; other content is the tool's own, and stays.
func SetData(result *outriggerv1.ToolResult, data []byte, isSame func(text string) bool, note string, link []*outriggerv1.ContentBlock) {
	for _, block := range result.GetContent() {
		if text := block.GetText(); text != nil && isSame(text.GetText()) {
			text.Text = string(data)
		}
	}
	result.DataForm = &outriggerv1.ToolResult_DataJson{DataJson: data}
	if note == "" {
		return
	}
	if len(result.GetContent()) == 0 {
		result.Content = []*outriggerv1.ContentBlock{Text(string(data))}
		if text := result.GetExplanation(); text != "" {
			result.Content = append(result.Content, Text(text))
		}
	}
	result.Content = append(append(result.Content, Text(note)), link...)
	result.Explanation = strings.TrimSpace(result.GetExplanation() + " " + note)
}
