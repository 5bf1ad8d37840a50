// SPDX-License-Identifier: Apache-2.0

package spantree_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/spantree"
)

var update = flag.Bool("update", false, "write the goldens")

func read(t testing.TB) map[string]spantree.Trace {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "call.json"))
	if err != nil {
		t.Fatal(err)
	}
	traces, err := spantree.Read([][]byte{text})
	if err != nil {
		t.Fatal(err)
	}
	return traces
}

// TestTree puts the spans of three services, which come in any order, below their parents.
func TestTree(t *testing.T) {
	t.Parallel()
	traces := read(t)
	if len(traces) != 2 {
		t.Errorf("%d traces, want 2", len(traces))
	}
	best, ok := spantree.Best(traces, "orders_find")
	if !ok {
		t.Fatal("no trace")
	}
	var got []string
	for _, s := range best {
		got = append(got, fmt.Sprintf("%s%s %s %s failed=%t", strings.Repeat("  ", s.Depth), s.Service, s.Kind, s.Name, s.Failed))
	}
	want := []string{
		"agent <1> Client call orders_find failed=false",
		"  outrigger Server tools/call orders_find failed=false",
		"    outrigger Client shop.v1.Orders/Find failed=true",
		"    outrigger Client shop.v1.Orders/Find failed=false",
		"      fleet Server shop.v1.Orders/Find failed=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"agent <1>", "outrigger", "fleet"}, best.Services()); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

// TestSVG compares the picture with its golden, and wants well-formed XML.
func TestSVG(t *testing.T) {
	t.Parallel()
	best, _ := spantree.Best(read(t), "orders_find")
	got := best.SVG()
	wellFormed(t, got)
	golden := filepath.Join("testdata", "call.svg")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("picture (-want +got):\n%s", diff)
	}
	if strings.Contains(got, "not in the picture") {
		t.Error("the picture has attributes that it should not have")
	}
}

// TestCircle reads spans that are each other's parents: they have no root, and the reader ends.
func TestCircle(t *testing.T) {
	t.Parallel()
	const circle = `{"resourceSpans":[{"scopeSpans":[{"spans":[
{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00000000000000a1","parentSpanId":"00000000000000a2","name":"a"},
{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00000000000000a2","parentSpanId":"00000000000000a1","name":"b"}]}]}]}`
	traces, err := spantree.Read([][]byte{[]byte(circle)})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := spantree.Best(traces, ""); ok {
		t.Error("a circle has a root")
	}
}

func FuzzRead(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "call.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"resourceSpans":[{}]}`))
	f.Fuzz(func(t *testing.T, request []byte) {
		traces, err := spantree.Read([][]byte{request})
		if err != nil {
			return
		}
		if best, ok := spantree.Best(traces, "a"); ok {
			_ = best.SVG()
		}
	})
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
