// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// contract checks what was read against the rules of the contract, because a
// backend may do the same.
func contract(t *testing.T, m proto.Message) {
	t.Helper()
	if err := protovalidate.Validate(m); err != nil {
		t.Fatalf("the contract refuses what was read: %v\n%v", err, m)
	}
}

// fuzzReader feeds a reader with anything. Only checked JSON has to give something
// that the contract accepts; other bytes do no harm.
func fuzzReader[T proto.Message](f *testing.F, from func([]byte) (T, error), then func(t *testing.T, raw []byte, m T), seeds ...string) {
	f.Helper()
	for _, seed := range append(seeds, `null`, ` {} `, `{"`, `[,]`, `{"a"`, `{:}`, `"`, ``) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := from(raw)
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || len(invalid.Path) > maxPathBytes || invalid.Reason == "" {
				t.Fatalf("the error is %#v", err)
			}
			return
		}
		if jsonrpc.Check(raw, jsonrpc.Limits{}) != nil {
			return
		}
		contract(t, m)
		if then != nil {
			then(t, raw, m)
		}
	})
}

func FuzzReadCapabilities(f *testing.F) {
	fuzzReader(f, ReadCapabilities, nil, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}`,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}, "a":[1]},"experimental":{"b":{}}}`)
}

func FuzzReadImplementation(f *testing.F) {
	fuzzReader(f, ReadImplementation, nil,
		`{"name":"a","version":"1","title":"t","description":"d","websiteUrl":"https://a@[::1]:80/%20?q#f","icons":[{"src":"data:,","sizes":["1x1","any"],"theme":"light"}]}`)
}

func FuzzReadProgressToken(f *testing.F) {
	fuzzReader(f, ReadProgressToken, func(t *testing.T, raw []byte, id *outriggerv1.Id) {
		out := tokenOf(id)
		again, err := ReadProgressToken(out)
		if err != nil || !proto.Equal(id, again) || !sameToken(raw, out) {
			t.Fatalf("%s became %v, %s and %v (%v)", raw, id, out, again, err)
		}
	}, `"a\u0000"`, `-0`, `9223372036854775808`, `-9223372036854775809`, `1e2`, strings.Repeat("1", 1024))
}

// tokenOf is the JSON of a token.
func tokenOf(id *outriggerv1.Id) []byte {
	switch kind := id.GetKind().(type) {
	case *outriggerv1.Id_Text:
		return jsontext.AppendString(nil, kind.Text)
	case *outriggerv1.Id_Integer:
		return strconv.AppendInt(nil, kind.Integer, 10)
	default:
		return []byte(id.GetBigInteger())
	}
}

// sameToken compares tokens by what the package jsonrpc makes of them as ids.
func sameToken(a, b []byte) bool {
	limits := jsonrpc.Limits{MaxIDBytes: 1 << 20}
	x, err1 := limits.ParseID(a)
	y, err2 := limits.ParseID(b)
	return err1 == nil && err2 == nil && x.Equal(y)
}

func FuzzReadChangeFilter(f *testing.F) {
	fuzzReader(f, ReadChangeFilter, func(t *testing.T, _ []byte, filter *outriggerv1.ChangeFilter) {
		out, err := AppendChangeFilter(nil, filter)
		again, err2 := ReadChangeFilter(out)
		if err != nil || err2 != nil || !proto.Equal(filter, again) {
			t.Fatalf("%v became %s and %v (%v, %v)", filter, out, again, err, err2)
		}
	}, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["file:///a","x://%41@b:1/?#"],"taskIds":["t"]}`)
}

func FuzzReadCompleteRequest(f *testing.F) {
	fuzzReader(f, ReadCompleteRequest, nil,
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"b":"c"}}}`,
		`{"ref":{"type":"ref/resource","uri":"a:{b}"},"argument":{"name":"a","value":""}}`)
}

func FuzzReadPromptArguments(f *testing.F) {
	fuzzReader(f, func(raw []byte) (*outriggerv1.GetPromptRequest, error) {
		arguments, err := ReadPromptArguments(raw)
		return &outriggerv1.GetPromptRequest{Name: "p", Arguments: arguments}, err
	}, nil, `{"a":"b","\u0063":""}`)
}

func FuzzReadInputResponses(f *testing.F) {
	fuzzReader(f, func(raw []byte) (*outriggerv1.ToolCall, error) {
		answers, err := ReadInputResponses(raw)
		return &outriggerv1.ToolCall{ToolName: "a", InputResponses: answers}, err
	}, func(t *testing.T, raw []byte, call *outriggerv1.ToolCall) {
		for key, answer := range jsontext.Members(raw) {
			got := call.GetInputResponses()[key]
			if other, ok := got.GetResponse().(*outriggerv1.InputResponse_OtherJson); ok && string(other.OtherJson) != string(answer) {
				t.Fatalf("%s became %s", answer, other.OtherJson)
			}
			checkSampling(t, answer, got.GetSampling())
		}
	}, `{"a":{"action":"accept","content":{"a":1,"b":["c"]},"_meta":{}},"b":{"roots":[{"uri":"file:///a","name":"n"}]},"c":7}`,
		`{"a":{"role":"assistant","model":"m","stopReason":"s","content":[{"type":"text","text":"t","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z"}},{"type":"image","data":"AAAA","mimeType":"a/b"}]}}`,
		`{"a":{"role":"user","model":"m","content":{"type":"tool_result","toolUseId":"i","structuredContent":[1],"content":[{"type":"resource_link","uri":"a:b","name":"n","size":1},{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}]}}}`,
		`{"a":{"role":"user","model":"m","content":[{"type":"tool_use","id":"i","name":"n","input":{}},{"type":"audio","data":"AA==","mimeType":"a/b"}]}}`)
}

// checkSampling writes what was read of a model's message and reads it again.
func checkSampling(t *testing.T, raw []byte, s *outriggerv1.SamplingResult) {
	t.Helper()
	if s == nil {
		return
	}
	w := newWriter(nil, Rev20260728)
	w.object(s)
	out, err := w.done()
	if err != nil {
		t.Fatalf("%s cannot be written: %v", raw, err)
	}
	checkCompact(t, out)
	if again := ReadInputResponse(out).GetSampling(); again == nil || len(again.GetContent()) != len(s.GetContent()) {
		t.Fatalf("%s became %s and %v", raw, out, again)
	}
}

// FuzzIsURI: what passes is a URI to protovalidate, too, whose rules the contract
// uses; and nothing that it accepts is refused, but for addresses with a zone and of
// future versions.
func FuzzIsURI(f *testing.F) {
	for _, seed := range []string{
		"https://u:p@example.com:80/a/b;c=1?q=%20#f", "file:///a%20b", "urn:a:b", "a:", "a:/", "a://", "a:///", "a:?#", "http://[::1]:8080/", "http://[::ffff:1.2.3.4]", "http://[v1.a]", "http://[fe80::1%25e]/",
		"http://a@b@c", "http://%ff/", "http://%41/", "a b:", "1a:b", "a:b c", "a:%", "a:%4", "a:%zz", "a:#a#b", "a:[", "http://a:b", "http://a:1:2", "://", "ä:b", "a:ä", "a:\x00", "http://[::1", "http://[1.2.3.4]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := protovalidate.Validate(&outriggerv1.ListRootsResult{Roots: []*outriggerv1.Root{{Uri: s}}})
		if len(s) > maxURIBytes {
			return
		}
		switch {
		case isURI(s) && err != nil:
			t.Fatalf("%q passes, but not with protovalidate: %v", s, err)
		case !isURI(s) && err == nil && !strings.Contains(s, "["):
			t.Fatalf("%q passes with protovalidate only", s)
		}
	})
}
