// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// payloadLimit is the limit of the tests.
const payloadLimit = 16 << 10

func redactText(raw string, extra ...string) string {
	r := Redactor{Base: NewNames(DefaultNames()), Extra: []Names{NewNames(extra)}}
	return string(r.AppendPayload(nil, []byte(raw), len(raw), payloadLimit))
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	const gone = `"[redacted]"`
	tests := []struct{ name, in, want string }{
		{"nothing", ``, `null`},
		{"scalars", ` [1, -2.50e+3 ,true,null,"x"] `, `[1,-2.50e+3,true,null,"x"]`},
		{"a number keeps its digits", `{"n":123456789012345678901234567890}`, `{"n":123456789012345678901234567890}`},
		{"text", `{"password":"x"}`, `{"password":` + gone + `}`},
		{"number", `{"pin": 1234 , "a":1}`, `{"pin":` + gone + `,"a":1}`},
		{"literal", `{"secret":false}`, `{"secret":` + gone + `}`},
		{"null", `{"token":null}`, `{"token":` + gone + `}`},
		{"object", `{"credentials":{"a":{"b":["}"]}},"c":1}`, `{"credentials":` + gone + `,"c":1}`},
		{"array", `{"token":["a",{"b":"]"}],"c":[]}`, `{"token":` + gone + `,"c":[]}`},
		{"empty object", `{"token":{},"c":{}}`, `{"token":` + gone + `,"c":{}}`},
		{"last", `{"a":1,"token":7}`, `{"a":1,"token":` + gone + `}`},
		{"deep", `[[{"a":[{"api_key":"x"}]}]]`, `[[{"a":[{"api_key":` + gone + `}]}]]`},
		{"camel", `{"apiKey":"x"}`, `{"apiKey":` + gone + `}`},
		{"header", `{"X-API-Key":"x","Set-Cookie":"y"}`, `{"X-API-Key":` + gone + `,"Set-Cookie":` + gone + `}`},
		{"escaped name", `{"pass\u0077ord":"x","to\u006ben":"y"}`, `{"pass\u0077ord":` + gone + `,"to\u006ben":` + gone + `}`},
		{"long s", `{"paſsword":"x"}`, `{"paſsword":` + gone + `}`},
		{"kelvin", `{"toKen":"x"}`, `{"toKen":` + gone + `}`},
		{"whole names only", `{"tokens":5,"progressToken":1,"secretary":"x","max_tokens":9}`, `{"tokens":5,"progressToken":1,"secretary":"x","max_tokens":9}`},
		{"a value is no name", `["password",{"a":"password"}]`, `["password",{"a":"password"}]`},
		{"extra", `{"internalNote":"x","b":{"internal_note":1}}`, `{"internalNote":` + gone + `,"b":{"internal_note":` + gone + `}}`},
		{"JSON in text", `{"text":"{\"a\": 1, \"token\": \"x\"}"}`, `{"text":"{\"a\":1,\"token\":\"[redacted]\"}"}`},
		{"JSON without secrets in text", `{"text":"{ \"a\": 1 }"}`, `{"text":"{ \"a\": 1 }"}`},
		{"JSON in text in text", `["[\"{\\\"token\\\":1}\"]"]`, `["[\"{\\\"token\\\":\\\"[redacted]\\\"}\"]"]`},
		{"text that is text that is JSON", `"\"{\\\"token\\\":1}\""`, `"\"{\\\"token\\\":\\\"[redacted]\\\"}\""`},
		{"torn JSON in text", `{"text":"{\"token\": \"x"}`, `{"text":` + gone + `}`},
		{"lines of JSON in text", `{"text":"{\"a\":1}\n{\"token\":1}"}`, `{"text":` + gone + `}`},
		{"JSON within prose", `{"text":"Got {\"token\" : 1}"}`, `{"text":` + gone + `}`},
		{"printed map", `{"text":"{'a': 1, 'api_key': 'x'}"}`, `{"text":` + gone + `}`},
		{"escaped JSON within prose", `{"text":"Got {\\\"token\\\": 1}"}`, `{"text":` + gone + `}`},
		{"escaped name within prose", `{"text":"Got {\"to\\u006ben\": 1}"}`, `{"text":` + gone + `}`},
		{"prose", `{"text":"the token: see 'password' and \"a\": b"}`, `{"text":"the token: see 'password' and \"a\": b"}`},
		{"not JSON", `{"token":`, `{"dev.outrigger/omitted":{"bytes":9,"reason":"not JSON"}}`},
		{"a name twice", `{"token":1,"token":2}`, `{"dev.outrigger/omitted":{"bytes":21,"reason":"not JSON"}}`},
		{"too large", `"` + strings.Repeat("x", payloadLimit) + `"`, `{"dev.outrigger/omitted":{"bytes":16386,"reason":"too large"}}`},
		{"grows", `[` + strings.Repeat(`{"pin":1},`, 1000) + `1]`, `[` + strings.Repeat(`{"pin":`+gone+`},`, 1000) + `1]`},
	}
	for _, tt := range tests {
		if got := redactText(tt.in, "internal_note"); got != tt.want {
			t.Errorf("%s: %.200s, want %.200s", tt.name, got, tt.want)
		}
	}
}

// A secret is gone wherever it is, in whatever layers of JSON in text.
func TestPlantedSecretsAreGone(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	red := Redactor{Base: NewNames(DefaultNames())}
	rapid.Check(t, func(t *rapid.T) {
		var doc any = map[string]any{rapid.SampledFrom(DefaultNames()).Draw(t, "name"): rapid.SampledFrom([]any{
			secret, []any{secret}, map[string]any{"x": secret, "]": []any{}},
		}).Draw(t, "value")}
		for range rapid.IntRange(0, 7).Draw(t, "layers") {
			switch rapid.IntRange(0, 3).Draw(t, "layer") {
			case 0:
				doc = []any{rapid.String().Draw(t, "beside"), doc, 1.5}
			case 1:
				doc = map[string]any{"a" + rapid.String().Draw(t, "name"): doc, "z": rapid.String().Draw(t, "beside")}
			case 2:
				raw, err := json.Marshal(doc)
				if err != nil {
					t.Fatal(err)
				}
				doc = string(raw)
			case 3:
				raw, err := json.MarshalIndent(doc, " ", "\t")
				if err != nil {
					t.Fatal(err)
				}
				doc = rapid.SampledFrom([]string{"", "Result: ", "{}\n"}).Draw(t, "before") + string(raw)
			}
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		got := red.AppendPayload(nil, raw, len(raw), len(raw))
		if strings.Contains(string(got), secret) || !json.Valid(got) {
			t.Fatalf("%s becomes %s", raw, got)
		}
	})
}

// FuzzRedact: one line of valid JSON comes out, whatever goes in; what is valid
// keeps its shape; no secret name has a value; and doing it again changes
// nothing.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{"password":"x"}`, `[{"a":{"token":[1,{"b":"]"}]}}]`, `{"text":"{\"api_key\":1}"}`, `{"text":"'secret': x"}`,
		"{\n\"pin\" : {} }", `{"\u0070in":1}`, `"\"\\\"[]\\\"\""`, `{"a`, `{"token":{},"":0}`, `{"t":"{\"token\":"}`, `["{\"a\":\"\\ud800\",\"token\":1}"]`,
	} {
		f.Add([]byte(seed))
	}
	base := NewNames(DefaultNames())
	f.Fuzz(func(t *testing.T, raw []byte) {
		red := Redactor{Base: base}
		limit := max(len(raw), 64)
		got := red.AppendPayload(nil, raw, len(raw), limit)
		if !jsontext.Value(got).IsValid() || bytes.ContainsAny(got, "\n\r") {
			t.Fatalf("%q becomes %q", raw, got)
		}
		if len(got) > 3*len(raw)+64 {
			t.Fatalf("%d bytes become %d", len(raw), len(got))
		}
		if len(raw) == 0 || !jsontext.Value(raw).IsValid() {
			return
		}
		doc, err := decodeAny(got)
		if err != nil {
			t.Fatal(err)
		}
		if leak := secretValue(doc, base); leak != "" {
			t.Fatalf("%q keeps %s: %q", raw, leak, got)
		}
		if again := red.AppendPayload(nil, got, len(got), max(len(got), 64)); string(again) != string(got) {
			t.Fatalf("%q, again %q", got, again)
		}
	})
}

// decodeAny reads one document, with numbers of any size.
func decodeAny(raw []byte) (doc any, err error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&doc)
	return doc, err
}

// secretValue walks a decoded document, JSON in texts included.
func secretValue(doc any, secret Names) string {
	switch v := doc.(type) {
	case map[string]any:
		for name, value := range v {
			if _, ok := secret[fold(name)]; ok && value != "[redacted]" {
				return fmt.Sprintf("%q: %v", name, value)
			}
			if leak := secretValue(value, secret); leak != "" {
				return leak
			}
		}
	case []any:
		for _, value := range v {
			if leak := secretValue(value, secret); leak != "" {
				return leak
			}
		}
	case string:
		if inner, err := decodeAny([]byte(v)); err == nil {
			return secretValue(inner, secret)
		}
	}
	return ""
}
