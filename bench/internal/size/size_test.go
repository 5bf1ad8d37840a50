// SPDX-License-Identifier: Apache-2.0

package size_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bench/internal/size"
)

func TestSum(t *testing.T) {
	t.Parallel()
	symbols := []size.Symbol{
		{Name: "runtime.main", Size: 500_000}, {Name: "example.com/a/b.(*T).Do", Size: 200_000}, {Name: "example.com/a/deep.table", Size: 300_000},
		{Name: "example.com/a.small", Size: 150}, {Name: "type:*example.com/a.T", Size: 150_000},
	}
	got, err := size.Sum(symbols, []string{"example.com/a", "example.com/a/deep"}, 1_500_150)
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
	if _, err := size.Sum(symbols, nil, 10); err == nil {
		t.Error("a binary that is smaller than its symbols is no error")
	}
}
