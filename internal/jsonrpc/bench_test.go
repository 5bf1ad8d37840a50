// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// request is a call whose arguments look like real ones: an array of small
// objects with strings, numbers and nesting. It has at least size bytes.
func request(size int) []byte {
	b := []byte(`{"jsonrpc":"2.0","id":"0191b0c4-6d3c-7f00-8000-6d1f6f1d2f3a","method":"tools/call","params":{"name":"fleet.get_vehicle","arguments":{"rows":[`)
	for i := 0; len(b) < size-3; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":"`...)
		b = strconv.AppendInt(b, int64(i)*7919, 10)
		b = append(b, `","price":{"currency":"EUR","units":129,"nanos":500000000},"tags":["new","caf\u00e9 \"x\""],"ok":true}`...)
	}
	return append(b, `]}}}`...)
}

var sizes = []struct {
	name string
	raw  []byte
}{{"small", request(0)}, {"4KB", request(4 << 10)}, {"256KB", request(256 << 10)}}

func BenchmarkParse(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(size.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if m := Parse(size.raw, ProfileMCP, Limits{}); m.Fault != nil {
					b.Fatal(m.Fault)
				}
			}
		})
	}
}

// BenchmarkAppendText copies JSON into a string of JSON, where every quote has to
// be escaped: the text beside a structured result.
func BenchmarkAppendText(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(size.raw)))
			b.ReportAllocs()
			dst := make([]byte, 0, 2*len(size.raw))
			for b.Loop() {
				dst = jsontext.AppendText(dst[:0], size.raw)
			}
		})
	}
}

// BenchmarkValid is the yardstick for BenchmarkParse: the standard library on
// the same bytes, which checks the grammar alone.
func BenchmarkValid(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(size.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if !json.Valid(size.raw) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

// BenchmarkHostile parses what is meant to be slow: many names in one object,
// objects just large enough to be hashed, and long names that differ late.
func BenchmarkHostile(b *testing.B) {
	for _, hostile := range hostileInputs() {
		b.Run(hostile.name, func(b *testing.B) {
			b.SetBytes(int64(len(hostile.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if f := Check(hostile.raw, Limits{}); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}

type hostileInput struct {
	name string
	raw  []byte
}

// hostileInputs are each 4 MiB, the largest message.
func hostileInputs() []hostileInput {
	fill := func(open, unit, end string, number bool) []byte {
		b := append(make([]byte, 0, defaults.MaxMessageBytes), open...)
		for i := 0; ; i++ {
			part := unit
			if number {
				part = `"` + unit + strconv.FormatInt(int64(i), 36) + `":0`
			}
			if len(b)+len(part)+1+len(end) > defaults.MaxMessageBytes {
				return append(bytes.TrimSuffix(b, []byte(",")), end...)
			}
			b = append(append(b, part...), ',')
		}
	}
	const few = 14 // just enough to be hashed
	small := string(fill("{", "", "}", true)[:len("{")+few*len(`"0":0,`)-1]) + "}"
	return []hostileInput{
		{"many names", fill("{", "", "}", true)},
		{"many escaped names", fill("{", `\u0061`, "}", true)},
		{"many small objects", fill("[", small, "]", false)},
		{"a large object, then many small ones", func() []byte {
			half := fill("[", small, "]", false)
			large := fill("[{", "", "}", true)
			cut := bytes.LastIndexByte(large[:len(large)/2], ',')
			keep := bytes.LastIndex(half[:len(half)/2], []byte("},")) + 1
			return append(append(append([]byte{}, large[:cut]...), "},"...), append(half[1:keep:keep], ']')...)
		}()},
		{"long names that differ late", fill("{", string(bytes.Repeat([]byte("a"), 4000)), "}", true)},
		{"similar to a reserved name", fill("{", `\u0000Method`, "}", true)},
	}
}
