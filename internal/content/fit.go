// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// reducedKey is the member of a result's _meta that says how it was cut: {"bytes", "budget", "cut", "more", "uri", "until", "content"}.
// "bytes" is the size of the whole. "cut" has {"path", "kept", "of"} for a list or a map of the data, and {"path"} for a member that is
// not there; "more" counts further places. "uri" and "until" are there if the whole can be read. "content" has {"path", "bytes", "kept",
// "of", "uri", "until"} for each block of content that was cut, or replaced by a text.
const reducedKey = "dev.outrigger/reduced"

// What is said about a result that is larger than its caller wants it, because the schema of the tool leaves no choice.
const (
	AllFields = "All fields are shown, because without some of them the result would not keep to the tool's output schema."
	// OtherFields and MaskLost are said about results of calls that are over.
	OtherFields = "All fields are shown, because the result does not have the fields any more that the call asked for."
	MaskLost    = "All fields are shown, because the field mask of the call was too long to be kept with the operation."

	tooLarge = "This result has %d bytes, more than its budget of %d. Nothing was left out, because the tool's output schema requires what is there."
)

// reductionKind is what was cut.
type reductionKind uint8

// The kinds. All but the first are blocks of content: lines of a text are left out, and others as a whole.
const (
	kindData reductionKind = iota
	blockText
	blockImage
	blockAudio
	blockResource
)

// Reduction is what there is to say about a result that was cut, or about a block of its content.
type Reduction struct {
	// Size is that of the whole, in bytes, and Budget what it was cut to.
	Size, Budget int
	// Report says what was left out of data.
	Report CutReport
	// URI is where the whole can be read until a time; empty where it cannot.
	URI   string
	Until time.Time
	// Kind is what was cut.
	Kind reductionKind
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
	// Example is a field mask that this result may have, from [reductionExample]; empty for none.
	Example string
	// PageSize and NextPage are the names of the fields of a method that lists in pages; empty for others.
	PageSize, NextPage string
}

// MediaType is that of the whole.
func (r *Reduction) MediaType() string {
	if r.Kind == kindData {
		return "application/json"
	}
	return r.Media
}

// cutText leaves out the lines of a text that do not fit into so many bytes.
func (r *Reduction) cutText(text *outriggerv1.TextContent, most int) {
	whole := text.GetText()
	text.Text = whole[:strings.LastIndexByte(whole[:most], '\n')+1]
	r.Kept, r.Of = strings.Count(text.GetText(), "\n"), strings.Count(strings.TrimSuffix(whole, "\n"), "\n")+1
}

func (r *Reduction) untilText() string { return r.Until.UTC().Format(time.RFC3339) }

// maxPlacesShown is how many places a text names.
const maxPlacesShown = 4

// Text says what was left out, and how to get it.
func (r *Reduction) Text() string {
	switch r.Kind {
	case kindData:
		return r.dataText()
	case blockText:
		return fmt.Sprintf("This result was cut to its budget of %d bytes; the whole has %d. Left out: all but the first %d of %d lines in %s/text.", r.Budget, r.Size, r.Kept, r.Of, r.Path) + r.wholeText()
	case blockImage:
		return r.leftOut("An image")
	case blockAudio:
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
		if i == maxPlacesShown {
			fmt.Fprintf(&out, " and more in %d places;", len(r.Report.Cuts)+r.Report.More-maxPlacesShown)
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
	where, key := "_meta", fieldsKey
	if r.Through {
		where, key = "the argument "+fieldsArgument, fieldsArgument
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
	return fmt.Sprintf(" The whole can be read until %s with resources/read from %s, or in parts, with ?offset=0&length=%d added to that URI.", r.untilText(), r.URI, r.Budget)
}

// leftOut is Text for a block that cannot be cut.
func (r *Reduction) leftOut(what string) string {
	text := fmt.Sprintf("%s was left out here: %s, %d bytes, too large for this result's budget of %d bytes.", what, r.Media, r.Size, r.Budget)
	if r.URI != "" {
		text += fmt.Sprintf(" It can be read until %s with resources/read from %s.", r.untilText(), r.URI)
	}
	if r.IsCallers {
		return text + " The call set this budget in _meta " + budgetKey + "; it may set a larger one."
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

// setMeta adds the member to the _meta of a result whose data were cut, or blocks of its content; data is nil for none.
func setMeta(result *outriggerv1.ToolResult, data *Reduction, content []Reduction) error {
	member, err := reductionMember(data, content)
	if err != nil {
		return err
	}
	meta, err := AppendMeta(nil, result, member)
	if err != nil {
		return fmt.Errorf("fit: the _meta of a result: %w", err)
	}
	result.MetaForm = &outriggerv1.ToolResult_MetaJson{MetaJson: meta}
	return nil
}

// wantedPlace is an entry of "cut" or "content".
type wantedPlace struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes,omitempty"`
	Kept  *int   `json:"kept,omitempty"`
	Of    *int   `json:"of,omitempty"`
	URI   string `json:"uri,omitempty"`
	Until string `json:"until,omitempty"`
}

// reductionMember is the member of _meta, without braces.
func reductionMember(data *Reduction, content []Reduction) ([]byte, error) {
	about := struct {
		Bytes   int           `json:"bytes"`
		Budget  int           `json:"budget"`
		Cut     []wantedPlace `json:"cut"`
		More    int           `json:"more,omitempty"`
		URI     string        `json:"uri,omitempty"`
		Until   string        `json:"until,omitempty"`
		Content []wantedPlace `json:"content,omitempty"`
	}{Cut: []wantedPlace{}}
	if data != nil {
		about.Bytes, about.Budget, about.More, about.URI = data.Size, data.Budget, data.Report.More, data.URI
		about.Until = data.until()
		for i := range data.Report.Cuts {
			cut := &data.Report.Cuts[i]
			at := wantedPlace{Path: cut.Path}
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
		at := wantedPlace{Path: block.Path, Bytes: block.Size, URI: block.URI, Until: block.until()}
		if block.Kind == blockText {
			at.Kept, at.Of = &block.Kept, &block.Of
		}
		about.Content = append(about.Content, at)
	}
	body, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	return append([]byte(`"`+reducedKey+`":`), body...), nil
}

// until is when the whole cannot be read any more; empty where it cannot be read.
func (r *Reduction) until() string {
	if r.URI == "" {
		return ""
	}
	return r.untilText()
}

// Link is the content that links to the whole; nil where it cannot be read.
func (r *Reduction) Link(tool string) []*outriggerv1.ContentBlock {
	if r.URI == "" {
		return nil
	}
	size := int64(r.Size)
	return []*outriggerv1.ContentBlock{{Block: &outriggerv1.ContentBlock_ResourceLink{ResourceLink: &outriggerv1.ResourceLink{
		Uri: r.URI, Name: tool + " result", MimeType: r.MediaType(), Size: &size,
		Description: fmt.Sprintf("The whole: %d bytes, until %s", size, r.untilText()),
	}}}}
}

// shares divides a budget among things of so many bytes: each has what it needs up to an equal share, and what one does not need is for
// the larger ones.
func shares(sizes []int, budget int) []int {
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

// textBlock is content that is a text.
func textBlock(text string) *outriggerv1.ContentBlock {
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
		result.Content = []*outriggerv1.ContentBlock{textBlock(string(data))}
		if text := result.GetExplanation(); text != "" {
			result.Content = append(result.Content, textBlock(text))
		}
	}
	result.Content = append(append(result.Content, textBlock(note)), link...)
	result.Explanation = strings.TrimSpace(result.GetExplanation() + " " + note)
}

const (
	// looked is how many elements of a list are looked at for their fields: those of a oneof differ between elements. maxLooked is how
	// many members are looked at in all.
	looked    = 8
	maxLooked = 512
	// maxBelow is how many objects deep a field may be below the place of a cut.
	maxBelow = 3
	// tries is how many masks are applied to the whole before there is no example.
	tries = 4
	// worthwhile is the part of the whole that a good example saves.
	worthwhile = 5
	// maxExample bounds the text of an example, and longValue the size of a value that is not worth being asked for by itself.
	maxExample = 256
	longValue  = 256
)

// reductionExample returns a field mask with one path of a document that was cut, as an example for its reader: if possible the path of a name or
// an id within a list or map that was cut. The schema has the path, and the document is smaller with it, if possible by a fifth. The
// mask is empty if there is no such path.
func reductionExample(of schema.View, whole []byte, cuts []Cut) string {
	bySize := slices.Clone(cuts)
	slices.SortStableFunc(bySize, func(a, b Cut) int {
		return cmp.Or(
			cmp.Compare(boolean(a.IsMember), boolean(b.IsMember)),
			cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")),
			cmp.Compare(b.Of-b.Kept, a.Of-a.Kept),
		)
	})
	var tried []string
	best, least := "", len(whole)
	for i := range bySize {
		for _, path := range pathsAt(of, whole, &bySize[i]) {
			text, ok := joinPath(path)
			if !ok || len(text) > maxExample || slices.Contains(tried, text) {
				continue
			}
			if len(tried) == tries {
				return best
			}
			tried = append(tried, text)
			mask, faults := newMask(text, of, "")
			if len(faults) > 0 || mask == nil {
				continue
			}
			size := len(mask.Append(nil, whole))
			if size < least {
				best, least = text, size
			}
			if size <= len(whole)-len(whole)/worthwhile {
				return text
			}
		}
	}
	return best
}

// boolean is a bool in an order.
func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// level is an object or an array on the way to a place, with its path in a mask.
type level struct {
	path  []string
	value []byte
	of    schema.View
}

// pathsAt are the paths that teach something about a cut, the best ones first: fields within the place, then fields beside it and
// beside what it is in.
func pathsAt(of schema.View, whole []byte, cut *Cut) [][]string {
	levels := []level{{value: whole, of: of}}
	for _, token := range strings.Split(cut.Path, "/")[1:] {
		at := levels[len(levels)-1]
		next, ok := at.member(schema.UnescapeToken(token))
		if !ok {
			return nil
		}
		levels = append(levels, next)
	}
	var out [][]string
	if at := levels[len(levels)-1]; !cut.IsMember {
		out = at.fields(jsontext.IsObject(at.value))
	}
	for _, at := range slices.Backward(levels[:len(levels)-1]) {
		if jsontext.IsObject(at.value) && !at.of.IsMap() {
			out = append(out, at.fields(false)...)
		}
	}
	return out
}

// member is the level that a name in a JSON Pointer leads to. A mask goes through lists by itself, and through maps with "*".
func (l level) member(token string) (level, bool) {
	if !jsontext.IsObject(l.value) {
		index, err := strconv.Atoi(token)
		if err != nil {
			return level{}, false
		}
		for element := range jsontext.Elements(l.value) {
			if index--; index < 0 {
				return level{path: l.path, value: element, of: l.of.Elements()}, true
			}
		}
		return level{}, false
	}
	value, ok := jsontext.Lookup(l.value, token)
	below, _ := l.of.Member(token)
	if l.of.IsMap() {
		token = anyEntry
	}
	return level{path: append(slices.Clip(l.path), token), value: value, of: below}, ok
}

// field is a field of a message, or of the messages of a list.
type field struct {
	path []string
	rank int
}

// fields are the paths of scalar fields below a level, the best ones first. isMap tells a map from a message.
func (l level) fields(isMap bool) [][]string {
	s := scalars{left: maxLooked}
	s.below(l, isMap, maxBelow)
	slices.SortStableFunc(s.found, func(a, b field) int { return cmp.Compare(a.rank, b.rank) })
	out := make([][]string, len(s.found))
	for i := range s.found {
		out[i] = s.found[i].path
	}
	return out
}

// scalars finds scalar fields.
type scalars struct {
	found []field
	// left is how many members may still be looked at.
	left int
}

// below looks below a level. depth is how many objects deep the fields may be.
func (s *scalars) below(l level, isMap bool, depth int) {
	n := 0
	for element := range jsontext.Elements(l.value) {
		if n++; n > looked {
			return
		}
		s.below(level{path: l.path, value: element, of: l.of.Elements()}, false, depth)
	}
	isMap = isMap || l.of.IsMap()
	for name, value := range jsontext.Members(l.value) {
		n++
		if s.left--; s.left < 0 || isMap && n > looked {
			return
		}
		of, _ := l.of.Member(name)
		if isMap {
			name = anyEntry
		}
		path := append(slices.Clip(l.path), name)
		switch {
		case isNested(value):
			if depth > 0 {
				s.below(level{path: path, value: value, of: of}, false, depth-1)
			}
		case isMap, jsontext.IsNull(value), name == typeMember:
		case len(value) > longValue:
			s.found = append(s.found, field{path, last})
		default:
			s.found = append(s.found, field{path, rankOf(name) + perLevel*(maxBelow-depth)})
		}
	}
}

// isNested reports whether a value has members or elements.
func isNested(value []byte) bool { return len(value) > 0 && (value[0] == '{' || value[0] == '[') }

// Ranks of fields, from 0 for the best one.
const (
	// perLevel is what each level below the place of the cut adds.
	perLevel = 5
	// worst is that of a name that says nothing: behind all that do.
	worst = perLevel * (maxBelow + 1)
	// last is that of a value that is too long to be an example.
	last = 2 * worst
)

// rankOf tells how well a name identifies what it is in: 0 is best.
func rankOf(name string) int {
	flat := strings.ToLower(strings.ReplaceAll(name, "_", ""))
	switch flat {
	case "name":
		return 0
	case "id":
		return 1
	case "displayname", "title", "label", "key", "code", "uid", "uuid", "uri":
		return 2
	}
	switch {
	case strings.HasSuffix(flat, "name"):
		return 3
	case strings.HasSuffix(name, "Id"), strings.HasSuffix(name, "ID"), strings.HasSuffix(name, "_id"):
		return 4
	}
	return worst
}

// Members of the _meta of a call by which its caller says how much of a result it wants.
const (
	// fieldsKey has a google.protobuf.FieldMask in JSON: the fields of the result that are wanted.
	fieldsKey = "dev.outrigger/fields"
	// budgetKey has the maximum size of the result, in bytes.
	budgetKey = "dev.outrigger/result-budget"
	// streamTimeKey has a google.protobuf.Duration in JSON: how long an answer that is a stream is read at most.
	streamTimeKey = "dev.outrigger/stream-time"
	// previewKey has whether the preview of the call is wanted in its place.
	previewKey = "dev.outrigger/preview"
	// digestKey has the digest of the tool that the client has seen.
	digestKey = "dev.outrigger/digest"
)

// fieldsArgument is the argument of catalog.call that takes the place of fieldsKey: models cannot set _meta.
const fieldsArgument = "fields"

// The budgets that a caller may ask for, in bytes. Below the least one, next to nothing of a result is left.
const (
	leastBudget = 256
	mostBudget  = 128 << 20
)

// Wanted is how much of a result the caller of a tool wants. The zero value is all of it.
type Wanted struct {
	// Fields is the mask of the fields that are wanted; empty for all.
	Fields string
	// Budget is the maximum size of the result in bytes; zero is none of the caller's own.
	Budget int
	// StreamTime is how long an answer that is a stream is read at most; zero is as long as the tool says. It can only shorten
	// that.
	StreamTime time.Duration
	// ByArgument is the tool of the compact catalog that Fields came to as fieldsArgument; empty where they came in _meta.
	ByArgument string
	// ForModel is set by edges whose callers pass results on to models: the budgets of the configuration and of the tool apply.
	ForModel bool
	// Preview asks for the preview of the call in its place.
	Preview bool
	// Digest is the digest of the tool as the caller has seen it, 64 lowercase hex digits; empty if that does not matter.
	Digest string
	// Place is the JSON Pointer of _meta in the request, for errors. It is empty if Digest came in a header.
	Place string
}

// digestHeader has the digest of the tool that the caller has seen, in calls of the backend's own methods, which have no _meta.
const digestHeader = "Outrigger-Digest"

// ReadWantedHeader reads what the header of a call without _meta says. The error is INVALID_PARAMS.
func ReadWantedHeader(h http.Header) (w Wanted, err *errmap.Error) {
	if values, ok := h[digestHeader]; ok {
		err = w.readDigest(strings.Join(values, ", "))
	}
	return w, err
}

// ReadWanted reads what the _meta of a call says. meta is a checked JSON object or nil, and place its JSON Pointer in the request. The
// error is INVALID_PARAMS.
func ReadWanted(meta []byte, place string) (Wanted, *errmap.Error) {
	w := Wanted{Place: place}
	for name, raw := range jsontext.Fields(meta) {
		switch string(name) {
		case fieldsKey:
			text, ok := jsontext.Text(raw)
			if !ok {
				return w, w.refuse(fieldsKey, "type", "want a string with the paths of fields, such as items.name,nextPageToken")
			}
			w.Fields = text
		case budgetKey:
			n, ok := jsontext.Int64(raw)
			if !ok || n < leastBudget || n > mostBudget {
				return w, w.refuse(budgetKey, "minimum", fmt.Sprintf("want a number of bytes from %d to %d", leastBudget, mostBudget))
			}
			w.Budget = int(n)
		case streamTimeKey:
			text, _ := jsontext.Text(raw)
			d, ok := StreamTime(text)
			if !ok {
				return w, w.refuse(streamTimeKey, "format", fmt.Sprintf("want a duration in seconds above 0s and up to %d s, such as 10s", int(mostStreamTime.Seconds())))
			}
			w.StreamTime = d
		case previewKey:
			if w.Preview = string(raw) == "true"; !w.Preview && string(raw) != "false" {
				return w, w.refuse(previewKey, "type", "want true or false")
			}
		case digestKey:
			text, _ := jsontext.Text(raw)
			if err := w.readDigest(text); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// mostStreamTime bounds the time that a caller may name. The tool and its deadline bound what it gets.
const mostStreamTime = 99_999 * time.Second

// StreamTime parses the time that a stream is wanted for, such as 10s or 0.5s.
func StreamTime(text string) (time.Duration, bool) {
	if !strings.HasSuffix(text, "s") || strings.Trim(text[:len(text)-1], "0123456789.") != "" {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0 && d <= mostStreamTime
}

// Mask reads Fields for results of a schema. The error is INVALID_PARAMS and names each path that is wrong.
func (w *Wanted) Mask(of schema.View) (*Mask, *errmap.Error) {
	return w.MaskUnder("", of)
}

// MaskUnder is Mask for a document that is one member of the result: each path begins with the name of that member.
func (w *Wanted) MaskUnder(member string, of schema.View) (*Mask, *errmap.Error) {
	mask, faults := newMask(w.Fields, of, member)
	if len(faults) > 0 {
		return nil, w.RefuseFields(faults...)
	}
	return mask, nil
}

// RefuseFields is INVALID_PARAMS for Fields, for each of the reasons, or INVALID_TOOL_INPUT where they came as an argument.
func (w *Wanted) RefuseFields(reasons ...string) *errmap.Error {
	if w.ByArgument == "" {
		return w.refuse(fieldsKey, "fields", reasons...)
	}
	violations := make([]errmap.Violation, 0, len(reasons))
	for _, reason := range reasons {
		violations = append(violations, errmap.Violation{Path: "/" + fieldsArgument, Keyword: "fields", Message: reason})
	}
	return errmap.InvalidInput(w.ByArgument, false, violations...)
}

// RefusePreview is INVALID_PARAMS for Preview.
func (w *Wanted) RefusePreview(reason string) *errmap.Error {
	return w.refuse(previewKey, "preview", reason)
}

// readDigest reads Digest.
func (w *Wanted) readDigest(text string) *errmap.Error {
	w.Digest = strings.TrimPrefix(text, "sha256:")
	if len(w.Digest) != hex.EncodedLen(sha256.Size) || strings.Trim(w.Digest, "0123456789abcdef") != "" {
		return w.refuse(digestKey, "pattern", "want the digest of the tool: 64 lowercase hex digits")
	}
	return nil
}

// DigestPath is the JSON Pointer of Digest in the request; empty if that is a header.
func (w *Wanted) DigestPath() string {
	if w.Place == "" {
		return ""
	}
	return schema.AppendPointer(w.Place, digestKey)
}

// RefuseDigest is INVALID_PARAMS for Digest, with a reason and the parts of the tool that are other ones.
func (w *Wanted) RefuseDigest(reason string, parts ...string) *errmap.Error {
	reasons := make([]string, 0, max(len(parts), 1))
	for _, part := range parts {
		reasons = append(reasons, part+" has changed")
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "is not the digest of the tool")
	}
	err := w.refuse(digestKey, "digest", reasons...)
	err.Message = "Invalid params: " + reason
	return err
}

func (w *Wanted) refuse(key, keyword string, reasons ...string) *errmap.Error {
	path := schema.AppendPointer(w.Place, key)
	if w.Place == "" { // the only member that comes in a header
		path, key = "", digestHeader
	}
	violations := make([]errmap.Violation, 0, len(reasons))
	for _, reason := range reasons {
		violations = append(violations, errmap.Violation{Path: path, Keyword: keyword, Message: key + ": " + reason})
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(violations...))
}

// Within is the budget of a call in bytes, where that of the tool is most; zero is none. A caller can only lower it.
func (w *Wanted) Within(most int) int {
	if !w.ForModel {
		most = 0
	}
	if w.Budget > 0 && (most == 0 || w.Budget < most) {
		return w.Budget
	}
	return most
}

// FetchedBy is how much of the result of a call is wanted where another request fetches it. That request can only lower the budget;
// the mask stays that of the call.
func (w *Wanted) FetchedBy(other Wanted) Wanted {
	out := *w
	out.ForModel = w.ForModel || other.ForModel
	if other.Budget > 0 && (w.Budget == 0 || other.Budget < w.Budget) {
		out.Budget = other.Budget
	}
	return out
}

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
