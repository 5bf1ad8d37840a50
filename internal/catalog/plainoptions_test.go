// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// texts are at and beside every limit that options.proto has, and of every form that it tells apart.
func texts() *rapid.Generator[string] {
	var out []string
	for _, n := range []int{1, 2, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 16384, 16385, 65536, 65537, 262144, 262145} {
		out = append(out, strings.Repeat("a", n), strings.Repeat("a", n-1)+".", "a."+strings.Repeat("b", n), strings.Repeat("é", (n+1)/2))
	}
	return rapid.OneOf(rapid.SampledFrom(out), rapid.SampledFrom([]string{
		"", "a.b", "a.b.c", "A.b", "a..b", "a.b\n", "\xff", "a\x00.b", "1.0.0", "0.0.0", "01.0.0", "1.0", "1.0.0.0", "1.0.0-rc.1", "1.0.0+x", "1.2.x", "v1.0.0",
		"1.2." + strings.Repeat("9", 124), "1.2." + strings.Repeat("9", 125), "forbidden", "optional", "required", "Required", "{}",
	}), rapid.String())
}

func durations() *rapid.Generator[*durationpb.Duration] {
	return rapid.Custom(func(t *rapid.T) *durationpb.Duration {
		if rapid.Bool().Draw(t, "absent") {
			return nil
		}
		return &durationpb.Duration{
			Seconds: rapid.SampledFrom([]int64{-1, 0, 1, 300, 86399, 86400, 86401, 31535999, 31536000, 31536001, 1 << 60}).Draw(t, "seconds"),
			Nanos:   rapid.SampledFrom([]int32{-1, 0, 0, 0, 1, 999999999, 1000000000}).Draw(t, "nanos"),
		}
	})
}

func switches() *rapid.Generator[*bool] {
	return rapid.SampledFrom([]*bool{nil, nil, new(true), new(false)})
}

// TestPlainOptionsKeepTheRules compares the short cut with the rules of options.proto: what it passes, they pass. It
// would be no short cut if it passed little.
func TestPlainOptionsKeepTheRules(t *testing.T) {
	t.Parallel()
	rules, err := transcode.Compile((&configv1.ToolOptions{}).ProtoReflect().Descriptor(), transcode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	drawn, plain := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		o := &configv1.ToolOptions{}
		// Most options say little: every further member is a further chance to break a rule.
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			switch rapid.IntRange(0, 15).Draw(t, "member") {
			case 0:
				o.Name = texts().Draw(t, "name")
			case 1:
				o.Title = texts().Draw(t, "title")
			case 2:
				o.Version = texts().Draw(t, "version")
			case 3:
				o.Module = texts().Draw(t, "module")
			case 4:
				o.DeprecatedIn = texts().Draw(t, "deprecated in")
			case 5:
				o.TaskSupport = texts().Draw(t, "task support")
			case 6:
				o.Timeout = durations().Draw(t, "timeout")
			case 7:
				o.CacheTtl = durations().Draw(t, "time to live")
			case 8:
				o.TaskAfter = durations().Draw(t, "task after")
			case 9:
				o.Destructive = switches().Draw(t, "destructive")
			case 10:
				o.ReadOnly = switches().Draw(t, "read-only")
			case 11:
				o.Description = texts().Draw(t, "description")
			case 12:
				o.Tags = rapid.SliceOfN(texts(), 0, 2).Draw(t, "tags")
			case 13:
				o.Icons = []*outriggerv1.Icon{{}}
			default:
				example := &outriggerv1.ToolExample{
					Name: texts().Draw(t, "name"), Description: texts().Draw(t, "description"),
					ArgumentsJson: rapid.SampledFrom([]string{"{}", "{}", "{}", "", "1"}).Draw(t, "arguments"), DataJson: texts().Draw(t, "data"),
				}
				for range rapid.SampledFrom([]int{1, 1, 64, 65}).Draw(t, "examples") {
					o.Examples = append(o.Examples, example)
				}
			}
		}
		drawn++
		if !arePlain(o) {
			return
		}
		plain++
		raw, err := proto.Marshal(o)
		if err != nil {
			t.Fatalf("plain options that cannot be encoded: %v", err)
		}
		if err := rules.CheckWire(t.Context(), raw); err != nil {
			t.Fatalf("plain options that break a rule: %v\n%v", err, o)
		}
	})
	if plain == 0 || plain == drawn {
		t.Errorf("%d of %d options are plain: the draw says nothing", plain, drawn)
	}
}

// Every member of the options is one that arePlain looks at, and so is every member of an example.
func TestPlainOptionsKnowEveryMember(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		message proto.Message
		members int
	}{{&configv1.ToolOptions{}, 25}, {&outriggerv1.ToolExample{}, 5}} {
		d := tt.message.ProtoReflect().Descriptor()
		if got := d.Fields().Len(); got != tt.members {
			t.Errorf("%s has %d members; teach arePlain those that are new, or have it refuse them", d.FullName(), got)
		}
	}
}
