// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// ruled are messages with rules, each with a document that keeps them.
func ruled() map[protoreflect.FullName]string {
	return map[protoreflect.FullName]string{
		"shapes.v1.Numbers": `{"aboveTen":11,"positiveId":"1","largeId":"18000000000000000000","outside":6,"mustCount":1}`,
		"shapes.v1.Texts":   `{"shortName":"a","prefixed":"a.b","must":"x"}`,
		"shapes.v1.Choices": `{"level":"LEVEL_LOW","agreed":true,"tags":["ab"],"inner":{"code":"ab"},"mail":"x"}`,
		"shapes.v1.Inner":   `{"code":"ab","deeper":{"code":"cd"}}`,
		"shapes.v1.Spans":   `{}`,
		"shapes.v1.Needs":   `{"id":"a","tags":["b"],"level":1,"named":{"a":{"code":"ab"}},"owner":{"code":"ab"},"reason":"r","first":"f","count":1,"links":["l"]}`,
		"shapes.v1.Account": `{"displayName":"x","password":"12345678","state":"STATE_ON","members":[]}`,
		"shapes.v1.Secrets": `{"accounts":{"a":{"display_name":"x","password":"12345678","state":1}}}`,
	}
}

// ruleValues are values around the bounds of the rules, in plain forms.
func ruleValues() []string {
	return []string{
		`null`, `0`, `1`, `-1`, `-5`, `-6`, `5`, `6`, `7`, `8`, `9`, `10`, `11`, `99`, `100`, `1000`, `1001`, `1234`, `1235`, `-20`, `-21`, `0.5`, `1.5`,
		`"0"`, `"1"`, `"-1"`, `"-6"`, `"6"`, `"7"`, `"10"`, `"11"`, `"99"`, `"100"`, `"1000"`, `"1001"`, `"1234"`, `"1235"`, `"-20"`, `"-21"`,
		`"17999999999999999999"`, `"18000000000000000000"`, `"18446744073709551615"`, `17999999999999999999`, `18446744073709551615`,
		`"NaN"`, `"Infinity"`, `"-Infinity"`, `true`, `false`, `""`, `"a"`, `"ab"`, `"abc"`, `"abcdef"`, `"ABC"`, `"a.b"`, `"a.bc"`, `"aXb"`, `"red"`, `"blue"`,
		`"root"`, `"x y"`, `"a-b.txt"`, `"a@b.c"`, `"host:80"`, `"äö"`, `"äöüß"`, `"AQID"`, `"AQIDBAUG"`, `"AQIDBAUGBwg="`,
		`"LEVEL_UNSPECIFIED"`, `"LEVEL_LOW"`, `"LEVEL_HIGH"`, `"STATE_UNSPECIFIED"`, `2`, `3`,
		`[]`, `["ab"]`, `["a"]`, `["ab","ab"]`, `["ab","cd","ef","gh"]`, `{}`, `{"a":1}`, `{"a":-1}`, `{"A":1}`, `{"a":1,"b":2,"c":3}`,
		`{"0":"x"}`, `{"1":"x"}`, `{"20":"x"}`, `{"21":"x"}`, `["LEVEL_LOW"]`, `["LEVEL_UNSPECIFIED"]`, `[0]`, `[2]`,
		`{"code":"ab"}`, `{"code":"a"}`, `{"code":"ab","deeper":{"code":"a"}}`, `[{"code":"ab"}]`, `[{}]`, `{"k":{"code":"ab"}}`, `{"k":{}}`, `"12345678"`,
		`"2024-01-01T00:00:00Z"`, `"2025-01-01T00:00:00Z"`, `"1s"`, `"0.5s"`,
	}
}

// onlyInWords are the rules that a schema states in its description only.
func onlyInWords(keyword string) bool {
	switch keyword {
	case "string.email", "string.host_and_port", "string.max_bytes", "bytes.len", "bytes.max_len", "even", "spans.order", "message.oneof", "duration.gte_lte",
		"id", "note", "needs.owner", "needs.count":
		return true
	default:
		return strings.Contains(keyword, "this") || // the expression is the keyword of a rule without one
			strings.HasPrefix(keyword, "string.email") || strings.HasPrefix(keyword, "string.host_and_port")
	}
}

// The canonical schema and the transcoder agree on the rules that keywords can say; what is only in words the transcoder
// alone refuses; and what the advertised schema admits the canonical one does.
func TestRulesAgree(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	for name, doc := range ruled() {
		s := newSubject(t, files, shape(t, files, name))
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			if _, err := s.message.ToWire(nil, []byte(doc)); err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				var root map[string]any
				if err := decodeNumbers([]byte(doc), &root); err != nil {
					t.Fatal(err)
				}
				for range rapid.IntRange(0, 2).Draw(t, "changes") {
					fd := s.md.Fields().Get(rapid.IntRange(0, s.md.Fields().Len()-1).Draw(t, "field"))
					var v any
					if err := decodeNumbers([]byte(rapid.SampledFrom(ruleValues()).Draw(t, "value")), &v); err != nil {
						t.Fatal(err)
					}
					delete(root, fd.JSONName())
					delete(root, string(fd.Name()))
					switch rapid.IntRange(0, 3).Draw(t, "how") {
					case 0:
					case 1:
						root[string(fd.Name())] = v
					default:
						root[fd.JSONName()] = v
					}
				}
				changed, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				compareRules(t, s, changed)
			})
		})
	}
}

func compareRules(t *rapid.T, s subject, doc []byte) {
	found, err := s.canonical.Validate(doc)
	if err != nil {
		t.Fatal(err)
	}
	byAdvertised, err := s.advertised.Validate(doc)
	if err != nil {
		t.Fatal(err)
	}
	if len(byAdvertised) == 0 && len(found) > 0 && !isBeyondType(found) {
		t.Fatalf("on %s\nadvertised schema admits, canonical: %v", doc, found)
	}
	wire, err := s.message.ToWire(nil, doc)
	if err == nil {
		answerWithRules(t, s, wire)
	}
	var refused *transcode.InputError
	switch {
	case err == nil && len(found) > 0:
		t.Fatalf("on %s\ntranscoder takes, canonical: %v", doc, found)
	case err != nil && !errors.As(err, &refused):
		t.Fatalf("on %s: %v", doc, err)
	case err != nil && len(found) == 0:
		for _, v := range refused.Violations {
			if onlyInWords(v.Keyword) || isFloatInString(doc, v) {
				return
			}
		}
		t.Fatalf("on %s\ncanonical schema admits, transcoder: %+v", doc, refused.Violations)
	}
}

// answerWithRules: what goes out although there are rules, the output schemas admit.
func answerWithRules(t *rapid.T, s subject, wire []byte) {
	doc, err := s.message.ToJSON(nil, wire)
	var refused *transcode.InputError
	if errors.As(err, &refused) && !refused.Structural {
		return // such as an Account without the id that only an answer has
	}
	if err != nil {
		t.Fatal(err)
	}
	admits(t, s.answer, doc, "canonical output schema")
	admits(t, s.shown, doc, "advertised output schema")
}

// isFloatInString: the ranges of floating-point numbers do not reach into strings.
func isFloatInString(doc []byte, v schema.Violation) bool {
	if !strings.HasPrefix(v.Keyword, "double.") && !strings.HasPrefix(v.Keyword, "float.") {
		return false
	}
	var members map[string]any
	if json.Unmarshal(doc, &members) != nil {
		return false
	}
	_, ok := members[strings.TrimPrefix(v.Path, "/")].(string)
	return ok
}
