// SPDX-License-Identifier: Apache-2.0

package size_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bench/internal/size"
)

func TestSum(t *testing.T) {
	t.Parallel()
	const symbols = `  4a0000     500000 T runtime.main
  4b0000     200000 T example.com/a/b.(*T).Do
  4b8000     300000 R example.com/a/deep.table
  4c0000        150 D example.com/a.small
  4d0000     900000 B example.com/a.zeros
  4e0000     150000 R type:*example.com/a.T
                    U _unused
`
	got, err := size.Sum(strings.NewReader(symbols), []string{"example.com/a", "example.com/a/deep"}, 1_500_150)
	if err != nil {
		t.Fatal(err)
	}
	want := []size.Share{
		{Module: "Go's standard library and runtime", Bytes: 500_000}, {Module: "line tables and the rest of the file", Bytes: 350_000},
		{Module: "example.com/a/deep", Bytes: 300_000}, {Module: "example.com/a", Bytes: 200_150},
		{Module: "types, tables and strings without an owner", Bytes: 150_000}, {Module: "modules below 0.1 MB"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := size.Sum(strings.NewReader(symbols), nil, 10); err == nil {
		t.Error("a binary that is smaller than its symbols is no error")
	}
}
