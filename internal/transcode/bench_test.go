// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// BenchmarkMessage is the cost of one document in each direction, small and large.
func BenchmarkMessage(b *testing.B) {
	m := compiled(b, "shapes.v1.Node")
	var children []string
	for i := range 1000 {
		children = append(children, fmt.Sprintf(`{"name":"child number %d","childNodes":[{"name":"leaf"}]}`, i))
	}
	for _, size := range []struct{ name, doc string }{
		{"small", `{"name":"root","parent":{"name":"up"},"childNodes":[]}`},
		{"large", `{"name":"root","childNodes":[` + strings.Join(children, ",") + `]}`},
	} {
		wire, err := m.ToWire(nil, []byte(size.doc))
		if err != nil {
			b.Fatal(err)
		}
		b.Run("ToWire/"+size.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(size.doc)))
			for b.Loop() {
				if _, err := m.ToWire(nil, []byte(size.doc)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("ToJSON/"+size.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(size.doc)))
			for b.Loop() {
				if _, err := m.ToJSON(nil, wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile is what a message with rules costs when a catalog is built: alone, and with a shared Transcoder.
func BenchmarkCompile(b *testing.B) {
	files := shapes(b)
	md := shape(b, files, "shapes.v1.Choices")
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			if _, err := transcode.Compile(md, transcode.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("shared", func(b *testing.B) {
		t := transcode.New(transcode.Options{})
		for b.Loop() {
			if _, err := t.Compile(md); err != nil {
				b.Fatal(err)
			}
		}
	})
}
