// SPDX-License-Identifier: Apache-2.0

package mcpjson

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
			{"data", &outriggerv1.ToolResult{Status: statusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data}}},
			{"spaced data", &outriggerv1.ToolResult{Status: statusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: spaced}}},
			{"content", &outriggerv1.ToolResult{Status: statusSuccess, Content: []*outriggerv1.ContentBlock{
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
