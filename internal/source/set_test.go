// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
)

// plainFile is a file with imports.
func plainFile(name string, imports ...string) *descriptorpb.FileDescriptorProto {
	return &descriptorpb.FileDescriptorProto{Name: new(name), Dependency: imports}
}

func setOf(tb testing.TB, files ...*descriptorpb.FileDescriptorProto) []byte {
	tb.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// TestASetIsReadInPieces has a set come byte by byte, with fields of other kinds between its files, and cut anywhere.
func TestASetIsReadInPieces(t *testing.T) {
	t.Parallel()
	raw := setOf(t, plainFile("a.proto"))
	raw = protowire.AppendVarint(protowire.AppendTag(raw, 2, protowire.VarintType), 7)
	raw = protowire.AppendBytes(protowire.AppendTag(raw, 3, protowire.BytesType), make([]byte, 5000))
	raw = protowire.AppendFixed64(protowire.AppendTag(raw, 4, protowire.Fixed64Type), 7)
	raw = protowire.AppendTag(protowire.AppendTag(raw, 5, protowire.StartGroupType), 5, protowire.EndGroupType)
	raw = append(raw, setOf(t, plainFile("b.proto", "a.proto"))...)
	whole, err := ParseDescriptorSet("set", raw, Limits{})
	if err != nil || len(whole.Files) != 2 {
		t.Fatalf("%v, error %v", whole, err)
	}
	pieces, err := readSet("set", iotest.OneByteReader(bytes.NewReader(raw)), Limits{}.withDefaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.Files, pieces.Files, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for cut := range raw {
		all := true
		for rest := raw[:cut]; len(rest) > 0 && all; {
			_, _, n := protowire.ConsumeField(rest)
			if all = n >= 0; all {
				rest = rest[n:]
			}
		}
		if _, err := ParseDescriptorSet("set", raw[:cut], Limits{}); (err == nil) != (all && cut > 0) {
			t.Errorf("cut at %d: error %v", cut, err)
		}
	}
	failing := iotest.ErrReader(os.ErrPermission)
	if _, err := readSet("set", failing, Limits{}.withDefaults(), nil); err == nil || strings.Contains(err.Error(), "cut short") {
		t.Errorf("error %v, want that of reading", err)
	}
}

// TestWhatIsKnownIsNotDecoded looks at which files of a set are decoded after a change.
func TestWhatIsKnownIsNotDecoded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "set.binpb")
	load := func(before *Revision, files ...*descriptorpb.FileDescriptorProto) (*Loaded, string) {
		t.Helper()
		if err := os.WriteFile(path, setOf(t, files...), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := NewDescriptorFile(path, Limits{}).(Conditional).LoadUnless(context.Background(), before)
		if err != nil {
			t.Fatal(err)
		}
		if out == nil {
			return nil, "unchanged"
		}
		var decoded []string
		for _, f := range out.Files {
			decoded = append(decoded, f.GetName())
		}
		slices.Sort(decoded)
		slices.Sort(out.Same)
		return out, fmt.Sprint(decoded, out.Same)
	}
	a, b, c, d := plainFile("a"), plainFile("b", "a"), plainFile("c", "b"), plainFile("d")
	changed := plainFile("a")
	changed.Package = new("other")
	first, _ := load(nil, a, b, c, d)
	for _, tc := range []struct {
		what  string
		files []*descriptorpb.FileDescriptorProto
		want  string
	}{
		{"nothing", []*descriptorpb.FileDescriptorProto{a, b, c, d}, "unchanged"},
		{"a file more", []*descriptorpb.FileDescriptorProto{a, b, c, d, plainFile("e", "d")}, "[e] [a b c d]"},
		{"what others import, behind them", []*descriptorpb.FileDescriptorProto{c, b, d, changed}, "[a b c] [d]"},
		{"what others import is gone", []*descriptorpb.FileDescriptorProto{b, c, d}, "[b c] [d]"},
		{"one comes twice", []*descriptorpb.FileDescriptorProto{a, b, c, d, d}, "[d d] [a b c]"},
	} {
		if _, got := load(first.Revision, tc.files...); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
	first.Revision.Needed = map[string]bool{"d": true}
	if _, got := load(first.Revision, a, b, c, d, plainFile("e")); got != "[d e] [a b c]" {
		t.Errorf("a needed file: %s", got)
	}
}
