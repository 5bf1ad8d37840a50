// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// dataInventor invents a JSON value for a JSON Schema. It reads the keywords that schemas of results have; what it misses, the check
// that follows does not.
type dataInventor struct {
	inventor

	root any
}

// value invents a value for a schema.
func (v *dataInventor) value(of any, depth int) any {
	s := v.resolved(of)
	v.left--
	if fixed, ok := s["const"]; ok {
		return fixed
	}
	for _, name := range [...]string{"enum", "examples"} {
		if list, _ := s[name].([]any); len(list) > 0 && (name == "enum" || !v.isPlain()) {
			return list[v.IntN(len(list))]
		}
	}
	if example, ok := s["default"]; ok && !v.isPlain() {
		return example
	}
	switch v.typeOf(s, depth) {
	case "object":
		return v.object(s, depth)
	case "array":
		return v.array(s, depth)
	case "string":
		return v.string(s)
	case "integer":
		return json.Number(jsonNumber(math.Floor(v.between(s, 1, 100))))
	case "number":
		return json.Number(jsonNumber(math.Round(v.between(s, 1, 100)*100) / 100))
	case "boolean":
		return v.IntN(2) == 0
	}
	return nil
}

// resolved is a schema behind its references, with what it is made of; empty for one that allows everything.
func (v *dataInventor) resolved(of any) map[string]any {
	s, _ := of.(map[string]any)
	out := map[string]any{}
	for range maxNesting {
		ref, _ := s["$ref"].(string)
		mergeSchema(out, s)
		if ref == "" || !strings.HasPrefix(ref, "#") {
			break
		}
		delete(out, "$ref")
		s, _ = at(v.root, ref).(map[string]any)
	}
	for _, name := range [...]string{"allOf", "anyOf", "oneOf"} {
		list, _ := out[name].([]any)
		delete(out, name)
		if name != "allOf" && len(list) > 0 {
			list = list[v.IntN(len(list)):][:1]
		}
		for _, part := range list {
			if v.left > -maxForced {
				v.left--
				mergeSchema(out, v.resolved(part))
			}
		}
	}
	return out
}

// at is what a pointer in a fragment names.
func at(root any, ref string) any {
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		m, _ := root.(map[string]any)
		root = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return root
}

// mergeSchema adds the keywords of a schema to those of another: properties and what is required add up, and of others the first stays.
func mergeSchema(to, from map[string]any) {
	for name, value := range from {
		switch old := to[name].(type) {
		case nil:
			to[name] = value
		case map[string]any:
			more, _ := value.(map[string]any)
			if name != "properties" {
				continue
			}
			all := map[string]any{}
			for _, from := range []map[string]any{more, old} {
				maps.Copy(all, from)
			}
			to[name] = all
		case []any:
			if more, _ := value.([]any); name == "required" {
				to[name] = slices.Concat(old, more)
			}
		}
	}
}

// typeOf is the type of a value to invent: the one that is declared, of several the first that is not null, or the one that the
// keywords are about.
func (*dataInventor) typeOf(s map[string]any, depth int) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, _ := one.(string); name != "null" || depth > maxNesting {
				return name
			}
		}
		return "null"
	}
	for _, by := range [...][2]string{{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"pattern", "string"}, {"minimum", "number"}} {
		if _, ok := s[by[0]]; ok {
			return by[1]
		}
	}
	return "string"
}

func (v *dataInventor) object(s map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	var required []string
	list, _ := s["required"].([]any)
	for _, one := range list {
		if name, ok := one.(string); ok {
			required = append(required, name)
		}
	}
	names := slices.Clone(required)
	if !v.isSparse() && depth < maxDepth && v.left > 0 {
		for name := range properties {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if depth <= maxNesting && v.left > -maxForced {
			out[name] = v.value(properties[name], depth+1)
		}
	}
	return out
}

func (v *dataInventor) array(s map[string]any, depth int) any {
	var most *uint64
	if n, ok := number(s["maxItems"]); ok && n >= 0 {
		most = new(uint64(n))
	}
	least, _ := number(s["minItems"])
	n := v.count(uint64(max(least, 0)), most)
	if depth >= maxDepth || v.left <= 0 {
		n = min(n, int(max(least, 0)))
	}
	isUnique, _ := s["uniqueItems"].(bool)
	first, _ := s["prefixItems"].([]any)
	out, seen := []any{}, map[string]bool{}
	for i := range max(n, len(first)) {
		of := s["items"]
		if i < len(first) {
			of = first[i]
		}
		for range maxTries {
			if v.left < -maxForced {
				break
			}
			one := v.value(of, depth+1)
			text, err := json.Marshal(one)
			if err == nil && (!isUnique || !seen[string(text)]) {
				seen[string(text)] = true
				out = append(out, one)
				break
			}
		}
	}
	return out
}

// string invents a text: by its pattern, or by its format, or a word of the length that is wanted.
func (v *dataInventor) string(s map[string]any) string {
	if pattern, _ := s["pattern"].(string); pattern != "" {
		return v.matching(pattern)
	}
	if encoding, _ := s["contentEncoding"].(string); encoding == "base64" {
		return base64.StdEncoding.EncodeToString(v.some(1 + v.IntN(8)))
	}
	format, _ := s["format"].(string)
	switch format {
	case "date-time":
		return v.moment().UTC().Format(time.RFC3339)
	case "date":
		return v.moment().UTC().Format(time.DateOnly)
	case "time":
		return v.moment().UTC().Format("15:04:05Z")
	case "uuid":
		return v.uuid()
	case "email":
		return "someone@example.com"
	case "uri", "url", "uri-reference", "iri":
		return "https://example.com/" + v.word(4)
	case "hostname":
		return v.word(6) + ".example.com"
	case "ipv4":
		return "192.0.2.1"
	case "ipv6":
		return "2001:db8::1"
	case "duration":
		return "PT1H"
	case "byte":
		return base64.StdEncoding.EncodeToString(v.some(1 + v.IntN(8)))
	case "int64", "uint64":
		return jsonNumber(float64(1 + v.IntN(100)))
	}
	least, _ := number(s["minLength"])
	n := max(int(min(least, maxPattern)), 6)
	if most, ok := number(s["maxLength"]); ok {
		n = min(n, int(max(most, 0)))
	}
	return v.word(n)
}

func (v *dataInventor) word(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('a' + v.IntN(26))
	}
	return string(out)
}

// between chooses a number within the bounds of a schema, and otherwise of those that are given.
func (v *dataInventor) between(s map[string]any, low, high float64) float64 {
	least, hasLeast := number(s["minimum"])
	if open, ok := number(s["exclusiveMinimum"]); ok && (!hasLeast || open >= least) {
		least, hasLeast = open+1, true
	}
	most, hasMost := number(s["maximum"])
	if open, ok := number(s["exclusiveMaximum"]); ok && (!hasMost || open <= most) {
		most, hasMost = open-1, true
	}
	switch {
	case hasLeast && hasMost:
		low, high = least, most
	case hasLeast:
		low, high = least, least+high
	case hasMost:
		low, high = min(low, most), most
	}
	if step, ok := number(s["multipleOf"]); ok && step > 0 {
		return math.Min(math.Ceil(low/step)+float64(v.IntN(4)), math.Floor(high/step)) * step
	}
	if v.isPlain() && v.attempt%2 == 1 {
		return low
	}
	return low + v.Float64()*(high-low)
}

// number is a number of a schema.
func number(value any) (float64, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	out, err := n.Float64()
	return out, err == nil
}

// jsonNumber is a number as JSON.
func jsonNumber(n float64) string {
	text, err := json.Marshal(n)
	if err != nil {
		return "0"
	}
	return string(text)
}
