// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// dataOf is compact JSON that looks like real data, of at least size bytes.
func dataOf(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"id":"%d","price":{"currency":"EUR","units":129},"tags":["new","café \"x\""],"ok":true}`, i*7919)
	}
	return []byte(`{"rows":[` + b.String()[1:] + `]}`)
}

func BenchmarkAppendToolResult(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"small", 100}, {"4KB", 4 << 10}, {"256KB", 256 << 10}} {
		data := dataOf(size.bytes)
		spaced := []byte(strings.ReplaceAll(string(data), `,"`, `, "`))
		text := string(data)
		for _, c := range []struct {
			name   string
			result *outriggerv1.ToolResult
		}{
			{"data", &outriggerv1.ToolResult{Status: StatusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data}}},
			{"spaced data", &outriggerv1.ToolResult{Status: StatusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: spaced}}},
			{"content", &outriggerv1.ToolResult{Status: StatusSuccess, Content: []*outriggerv1.ContentBlock{
				{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: text}}},
			}}},
		} {
			b.Run(c.name+"/"+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				dst := make([]byte, 0, 4*len(data)+1024)
				for b.Loop() {
					if _, err := AppendToolResult(dst, c.result, Rev20260728); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkReadCapabilities(b *testing.B) {
	raw := []byte(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCapabilities(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// benchWriter measures a writer into a buffer that is large enough.
func benchWriter(b *testing.B, write func(dst []byte) ([]byte, error)) {
	b.Helper()
	out, err := write(nil)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 2*len(out))
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := write(dst); err != nil {
			b.Fatal(err)
		}
	}
}

// benchIcon is a picture of a thing that is listed.
const benchIcon = `icons { src: "https://example.com/icon.png" mime_type: "image/png" sizes: "48x48" sizes: "any" theme: "dark" }`

func BenchmarkAppendTools(b *testing.B) {
	tools := make([]*outriggerv1.Tool, 1000)
	for i := range tools {
		tools[i] = parse(b, new(outriggerv1.Tool), fmt.Sprintf(`name: "shop.get_order_%d" title: "Get an order" description: "Returns one order by its id, with its lines." `+
			`input_schema_json: '{"type":"object","properties":{"id":{"type":"string"},"lines":{"type":"boolean"}},"required":["id"]}' `+
			`output_schema_json: '{"type":"object","properties":{"id":{"type":"string"}}}' `+
			`annotations { title: "Get" read_only_hint: true open_world_hint: false } meta_json: '{"a":1}' `+benchIcon, i))
	}
	for _, rev := range []Revision{Rev20260728, rev20250618} {
		b.Run(rev.String(), func(b *testing.B) {
			benchWriter(b, func(dst []byte) ([]byte, error) {
				for _, t := range tools {
					var err error
					if dst, err = appendTool(dst, t, rev); err != nil {
						return nil, err
					}
				}
				return dst, nil
			})
		})
	}
}

func BenchmarkAppendRichResult(b *testing.B) {
	annotations := `annotations { audience: ROLE_USER priority: 0.5 last_modified { seconds: 1790000000 } }`
	r := parse(b, new(outriggerv1.ToolResult), `status: "success" data_json: '{"id":"42","total":12.5}'
		content { text { text: "Order 42 has three lines." } `+annotations+` }
		content { image { data: "0123456789abcdef" mime_type: "image/png" } meta_json: '{"a":1}' }
		content { audio { data: "0123456789abcdef" mime_type: "audio/wav" } }
		content { resource_link { uri: "file:///orders/42" name: "order" title: "Order 42" description: "The order." mime_type: "text/plain" size: 12 `+benchIcon+` } `+annotations+` }
		content { resource { contents { uri: "file:///orders/42" mime_type: "text/plain" text: "three lines" } } }
		content { resource { contents { uri: "file:///orders/42.bin" blob: "0123456789abcdef" meta_json: '{"b":2}' } } }`)
	benchWriter(b, func(dst []byte) ([]byte, error) { return AppendToolResult(dst, r, Rev20260728) })
}

func BenchmarkAppendPrompts(b *testing.B) {
	prompts := make([]*outriggerv1.Prompt, 100)
	for i := range prompts {
		prompts[i] = parse(b, new(outriggerv1.Prompt), `name: "review" title: "Review" description: "Reviews a change." meta_json: '{"a":1}'
			arguments { name: "path" title: "Path" description: "The file." required: true } arguments { name: "style" } `+benchIcon)
	}
	benchWriter(b, func(dst []byte) ([]byte, error) { return AppendPrompts(dst, prompts) })
}

func BenchmarkAppendPromptMessages(b *testing.B) {
	r := parse(b, new(outriggerv1.PromptResult), `messages { role: ROLE_USER content { text { text: "Review this file." } } }
		messages { role: ROLE_USER content { resource { contents { uri: "file:///a.go" text: "package a" } } } }
		messages { role: ROLE_ASSISTANT content { text { text: "It has no tests." } annotations { priority: 1 } } }`)
	benchWriter(b, func(dst []byte) ([]byte, error) { return AppendPromptMessages(dst, r.GetMessages(), Rev20251125) })
}

func BenchmarkAppendInputRequest(b *testing.B) {
	q := parse(b, new(outriggerv1.InputRequest), `sampling { max_tokens: 100 system_prompt: "Be brief." temperature: 0.5 stop_sequences: "end" model_preferences { hints { name: "small" } cost_priority: 1 }
		messages { role: ROLE_USER content { text { text: "What is in it?" } } }
		messages { role: ROLE_ASSISTANT content { tool_use { id: "1" name: "look" input_json: '{"path":"/"}' } } }
		messages { role: ROLE_USER content { tool_result { tool_use_id: "1" content { text { text: "three files" } } structured_content_json: '[1,2,3]' } } } }`)
	benchWriter(b, func(dst []byte) ([]byte, error) {
		_, dst, err := AppendInputRequest(dst, q, Rev20251125)
		return dst, err
	})
}

func BenchmarkReadImplementation(b *testing.B) {
	raw := []byte(`{"name":"client","version":"1.2.3","title":"A client","websiteUrl":"https://example.com/","icons":[{"src":"https://example.com/icon.png","mimeType":"image/png","sizes":["48x48"],"theme":"light"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadImplementation(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadInputResponse(b *testing.B) {
	for _, c := range []struct{ name, raw string }{
		{"elicitation", `{"action":"accept","content":{"name":"Ann","age":30,"tags":["a","b"]},"_meta":{"a":1}}`},
		{"roots", `{"roots":[{"uri":"file:///home/ann/project","name":"project"},{"uri":"file:///tmp"}]}`},
		{"sampling", `{"role":"assistant","model":"small","stopReason":"toolUse","content":[{"type":"text","text":"I look.","annotations":{"audience":["user"],"priority":0.5}},{"type":"tool_use","id":"1","name":"look","input":{"path":"/"}}]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ReadInputResponse([]byte(c.raw)).GetOtherJson() != nil {
					b.Fatal("it is not understood")
				}
			}
		})
	}
}

func BenchmarkReadRequests(b *testing.B) {
	filter := []byte(`{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///b"],"taskIds":["t-1"]}`)
	complete := []byte(`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"path","value":"/a"},"context":{"arguments":{"style":"brief"}}}`)
	b.Run("filter", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadChangeFilter(filter); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("completion", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadCompleteRequest(complete); err != nil {
				b.Fatal(err)
			}
		}
	})
}
