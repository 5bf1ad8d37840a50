// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Fitter fits the result of one call to what its caller wants: its data to the fields that the caller chose, then data and content
// to a budget.
type Fitter struct {
	// Tool is the name of the tool, and Of what its output schema says about its results.
	Tool string
	Of   schema.View
	// Mask selects the fields that are wanted; nil for all. Noted is what there is to say about the result besides.
	Mask  *Mask
	Noted string
	// Budget is the maximum size in bytes; zero for none.
	Budget int
	// About is what every reduction of this result says.
	About Reduction
	// Under names the member of the answer that the data are; empty where they are the whole answer.
	Under string
	// Mark marks data of a stream that were cut; nil for other data.
	Mark func(cut []byte) []byte
	// Keeps reports whether data keep to the output schema that the tool declares.
	Keeps func(data []byte) bool
	// Hold holds the whole of what is cut, if there is room and a reader. It is called once for each reduction.
	Hold func(about *Reduction, whole []byte)
}

// Cut cuts data to the budget. It returns no reduction where the output schema of the tool does not let enough go.
func (f *Fitter) Cut(whole []byte) ([]byte, *Reduction) {
	cut, report, ok := AppendCut(nil, whole, f.Budget, f.Of)
	if ok && f.Mark != nil {
		cut = f.Mark(cut)
	}
	if !ok || !f.Keeps(cut) {
		return nil, nil
	}
	about := f.About
	about.Size, about.Budget, about.Report = len(whole), f.Budget, report
	if !about.IsFetched {
		about.Example = reductionExample(f.Of, whole, report.Cuts)
	}
	if f.Under != "" {
		for i := range report.Cuts {
			report.Cuts[i].Path = "/" + f.Under + report.Cuts[i].Path
		}
		if about.Example != "" {
			about.Example = f.Under + "." + about.Example
		}
	}
	f.Hold(&about, bytes.Clone(whole))
	return cut, &about
}

// Result cuts the data of a call to the budget and returns them as a result, with what is said about them. If nothing can be left
// out, there is no result, and the explanation says so.
func (f *Fitter) Result(data []byte, explanation string) (result *outriggerv1.ToolResult, explained string, failed *errmap.Error) {
	cut, about := f.Cut(data)
	if about == nil {
		return nil, strings.TrimSpace(explanation + " " + fmt.Sprintf(tooLarge, len(data), f.Budget)), nil
	}
	result = &outriggerv1.ToolResult{Status: StatusPartial, Explanation: explanation}
	if err := setMeta(result, about, nil); err != nil {
		return nil, "", errmap.Unwritable(err)
	}
	SetData(result, cut, nil, about.Text(), about.Link(f.Tool))
	return result, result.GetExplanation(), nil
}

// Native reduces the result of a native tool, which may have data, content or both.
func (f *Fitter) Native(result *outriggerv1.ToolResult) *errmap.Error {
	if result.GetStatus() == StatusFailure {
		return nil
	}
	given, err := FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return errmap.Unwritable(err)
	}
	if jsontext.IsNull(given) {
		given = nil
	}
	isData := func(string) bool { return false }
	if len(given) > 0 {
		var sorted []byte
		isData = func(text string) bool {
			if sorted == nil {
				sorted = SortedJSON(given)
			}
			return json.Valid([]byte(text)) && bytes.Equal(SortedJSON([]byte(text)), sorted)
		}
	}
	blocks := f.content(result, isData)
	var about *Reduction
	if len(given) > 0 {
		about = f.data(result, given, isData)
	}
	if about == nil && len(blocks) == 0 {
		return nil
	}
	result.Status = StatusPartial
	if err := setMeta(result, about, blocks); err != nil {
		return errmap.Unwritable(err)
	}
	return nil
}

// data reduces the data of a result. It returns nothing where they are not cut.
func (f *Fitter) data(result *outriggerv1.ToolResult, given []byte, isData func(string) bool) (about *Reduction) {
	whole := jsontext.Compact(nil, given)
	data, note := whole, f.Noted
	var link []*outriggerv1.ContentBlock
	add := func(text string) { note = strings.TrimSpace(note + " " + text) }
	if f.Mask != nil {
		if chosen := f.Mask.Append(nil, whole); f.Keeps(chosen) {
			data = chosen
		} else {
			add(AllFields)
		}
	}
	if f.Budget > 0 && len(data) > f.Budget {
		var cut []byte
		if cut, about = f.Cut(data); about == nil {
			add(fmt.Sprintf(tooLarge, len(data), f.Budget))
		} else {
			data, link = cut, about.Link(f.Tool)
			add(about.Text())
		}
	}
	if note != "" || !bytes.Equal(data, whole) {
		SetData(result, data, isData, note, link)
	}
	return about
}

// content fits the content of a result that is not its data, so that all blocks together have at most the budget: texts are cut at
// ends of lines, and what else is too large is left out. The whole of each is held, and linked behind it.
func (f *Fitter) content(result *outriggerv1.ToolResult, isData func(string) bool) []Reduction {
	if f.Budget == 0 {
		return nil
	}
	all := result.GetContent()
	parts, sizes, size := make([]sizedBlock, len(all)), make([]int, len(all)), 0
	for i, block := range all {
		parts[i] = sizedOf(block)
		sizes[i] = parts[i].size
		size += sizes[i]
	}
	if size <= f.Budget {
		return nil
	}
	for i, block := range all {
		if text := block.GetText(); text != nil && isData(text.GetText()) {
			sizes[i] = 0
		}
	}
	most := shares(sizes, f.Budget)
	var blocks []*outriggerv1.ContentBlock
	var cuts []Reduction
	for i, block := range all {
		if sizes[i] <= most[i] {
			blocks = append(blocks, block)
			continue
		}
		p := &parts[i]
		whole := p.whole()
		about := Reduction{
			Size: len(whole), Budget: f.Budget, Media: p.mediaType, Kind: p.kind, IsCallers: f.About.IsCallers, Path: fmt.Sprintf("/content/%d", len(blocks)),
		}
		f.Hold(&about, whole)
		if text := block.GetText(); text != nil {
			about.cutText(text, most[i])
			blocks = append(blocks, block)
		}
		blocks = append(append(blocks, textBlock(about.Text())), about.Link(f.Tool)...)
		cuts = append(cuts, about)
	}
	result.Content = blocks
	return cuts
}

// SortedJSON writes JSON with sorted members and without white space; numbers keep their digits. Text that is no JSON stays as it
// is, and no text is the empty object.
func SortedJSON(text []byte) []byte {
	if len(text) == 0 {
		return []byte(jsontext.EmptyObject)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return sorted
}
