// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"fmt"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/fieldmask"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Members of the _meta of a call by which its caller says how much of a result it wants.
const (
	// FieldsKey has a google.protobuf.FieldMask in JSON: the fields of the result that are wanted.
	FieldsKey = "dev.outrigger/fields"
	// BudgetKey has the maximum size of the result, in bytes.
	BudgetKey = "dev.outrigger/result-budget"
	// StreamTimeKey has a google.protobuf.Duration in JSON: how long an answer that is a stream is read at most.
	StreamTimeKey = "dev.outrigger/stream-time"
)

// FieldsArgument is the argument of catalog.call that takes the place of FieldsKey: models cannot set _meta.
const FieldsArgument = "fields"

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
	// ByArgument is the tool of the compact catalog that Fields came to as FieldsArgument; empty where they came in _meta.
	ByArgument string
	// ForModel is set by edges whose callers pass results on to models: the budgets of the configuration and of the tool apply.
	ForModel bool
	// Place is the JSON Pointer of _meta in the request, for errors.
	Place string
}

// Read reads what the _meta of a call says. meta is a checked JSON object or nil, and place its JSON Pointer in the request. The
// error is INVALID_PARAMS.
func Read(meta []byte, place string) (Wanted, *errmap.Error) {
	w := Wanted{Place: place}
	for name, raw := range jsontext.Fields(meta) {
		switch string(name) {
		case FieldsKey:
			text, ok := jsontext.Text(raw)
			if !ok {
				return w, w.refuse(FieldsKey, "type", "want a string with the paths of fields, such as items.name,nextPageToken")
			}
			w.Fields = text
		case BudgetKey:
			n, ok := jsontext.Int64(raw)
			if !ok || n < leastBudget || n > mostBudget {
				return w, w.refuse(BudgetKey, "minimum", fmt.Sprintf("want a number of bytes from %d to %d", leastBudget, mostBudget))
			}
			w.Budget = int(n)
		case StreamTimeKey:
			text, _ := jsontext.Text(raw)
			d, ok := StreamTime(text)
			if !ok {
				return w, w.refuse(StreamTimeKey, "format", fmt.Sprintf("want a duration in seconds above 0s and up to %d s, such as 10s", int(mostStreamTime.Seconds())))
			}
			w.StreamTime = d
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
func (w *Wanted) Mask(of schema.View) (*fieldmask.Mask, *errmap.Error) {
	return w.checked(fieldmask.New(w.Fields, of))
}

// MaskUnder is Mask for a document that is one member of the result: each path begins with the name of that member.
func (w *Wanted) MaskUnder(member string, of schema.View) (*fieldmask.Mask, *errmap.Error) {
	return w.checked(fieldmask.NewUnder(member, w.Fields, of))
}

func (w *Wanted) checked(mask *fieldmask.Mask, faults []string) (*fieldmask.Mask, *errmap.Error) {
	if len(faults) > 0 {
		return nil, w.RefuseFields(faults...)
	}
	return mask, nil
}

// RefuseFields is INVALID_PARAMS for Fields, for each of the reasons, or INVALID_TOOL_INPUT where they came as an argument.
func (w *Wanted) RefuseFields(reasons ...string) *errmap.Error {
	if w.ByArgument == "" {
		return w.refuse(FieldsKey, "fields", reasons...)
	}
	violations := make([]errmap.Violation, 0, len(reasons))
	for _, reason := range reasons {
		violations = append(violations, errmap.Violation{Path: "/" + FieldsArgument, Keyword: "fields", Message: reason})
	}
	return errmap.InvalidInput(w.ByArgument, false, violations...)
}

func (w *Wanted) refuse(key, keyword string, reasons ...string) *errmap.Error {
	violations := make([]errmap.Violation, 0, len(reasons))
	for _, reason := range reasons {
		violations = append(violations, errmap.Violation{Path: schema.AppendPointer(w.Place, key), Keyword: keyword, Message: key + ": " + reason})
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
