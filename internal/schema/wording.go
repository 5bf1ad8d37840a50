// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

func (r *reporter) found(location []string) string {
	switch v := lookUp(r.doc, location, false).(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return clip(v.String())
	case string:
		return "the string " + quote(v)
	case []any:
		return fmt.Sprintf("an array of length %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object with %d members", len(v))
	default:
		return "another value"
	}
}

func clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

func (r *reporter) wanted(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "wanted " + typeList(slices.Clone(k.Want))
	case *kind.Enum:
		return "wanted " + r.choice(k.Want, e.InstanceLocation)
	case *kind.Const:
		return "wanted " + literal(k.Want)
	case *kind.Format:
		return "wanted " + formatText(k.Want)
	case *kind.Pattern:
		return "wanted text that matches " + clipPattern(k.Want)
	case *kind.Minimum:
		return "wanted at least " + decimal(k.Want)
	case *kind.Maximum:
		return "wanted at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "wanted more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "wanted less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "wanted a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("wanted at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("wanted at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("wanted at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("wanted at most %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("wanted at least %d entries", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("wanted at most %d entries", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("wanted every item once (%d and %d are equal)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Not:
		return "wanted a value that is not refused"
	case *kind.FalseSchema:
		return "wanted no value here"
	default:
		return "wanted a value for which " + keywordOf(k) + " holds"
	}
}

// choice lists the values of an enum, or names the one that was most likely meant.
func (r *reporter) choice(values []any, location []string) string {
	var names []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	if len(names) == 0 || len(values)-len(names) > 1 {
		var all []string
		for _, v := range values {
			all = append(all, literal(v))
		}
		return "one of " + clip(strings.Join(all, ", "))
	}
	text := "one of " + list(names)
	if slices.Contains(values, nil) {
		text = "null or " + text
	}
	if s, ok := lookUp(r.doc, location, false).(string); ok {
		if near := nearestValue(s, names); near != "" {
			text += " (did you mean " + quote(near) + "?)"
		}
	}
	return text
}

func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "another value"
	}
	return clip(string(raw))
}

// maxPatternShown keeps generated patterns, which explain nothing, out of messages.
const maxPatternShown = 100

func clipPattern(p string) string {
	if len(p) > maxPatternShown {
		return "the pattern of the schema"
	}
	return p
}

func decimal(x *big.Rat) string {
	if x.IsInt() {
		return clip(x.Num().String())
	}
	f, _ := x.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func formatText(name string) string {
	switch name {
	case formatInt32, formatInt64, formatUint32, formatUint64:
		return "an integer of type " + name
	case formatFloat, formatDouble:
		return "a number of type " + name
	case formatByte:
		return "base64"
	case formatDateTime:
		return "an RFC 3339 timestamp such as 2006-01-02T15:04:05Z"
	case formatDuration:
		return "a duration in seconds such as 3.5s"
	case formatFieldMask:
		return "comma-separated lowerCamelCase paths"
	default:
		return "the format " + name
	}
}
