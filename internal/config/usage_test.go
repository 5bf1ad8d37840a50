// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

func names(kind config.Kind) map[string]bool {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.RegisterFlags(flags, kind)
	out := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { out[f.Name] = true })
	return out
}

// declaredFlags are the flags of all fields.
func declaredFlags() (out []*configv1.Flag) {
	config.EachField(func(fd protoreflect.FieldDescriptor, _ string) {
		flags, _ := proto.GetExtension(fd.Options(), configv1.E_Flag).([]*configv1.Flag)
		out = append(out, flags...)
	})
	return out
}

// lostFlags says why flags that are declared are not there: each flag has one place in the help, and no two have the same.
func lostFlags(declared []*configv1.Flag, known []config.Binding) (faults []string) {
	behind := map[string]string{}
	for _, f := range declared {
		if other := behind[f.GetAfter()]; f.GetAfter() != "" && other != "" {
			faults = append(faults, "--"+other+" and --"+f.GetName()+" are both after --"+f.GetAfter()+": let one be after the other")
		}
		behind[f.GetAfter()] = f.GetName()
	}
	for _, f := range declared {
		if isKnown := slices.ContainsFunc(known, func(b config.Binding) bool { return b.Flag == f.GetName() }); !isKnown {
			faults = append(faults, "--"+f.GetName()+" is lost: it is after --"+f.GetAfter()+", which is not there, or behind which another one is")
		}
	}
	return faults
}

func TestLostFlagsAreNamed(t *testing.T) {
	t.Parallel()
	flag := func(name, after string) *configv1.Flag { return &configv1.Flag{Name: name, After: after} }
	declared := []*configv1.Flag{flag("a", ""), flag("b", "a"), flag("c", "a"), flag("d", "x")}
	got := strings.Join(lostFlags(declared, []config.Binding{{Flag: "a"}, {Flag: "c"}}), "\n")
	for _, want := range []string{"--b and --c are both after --a", "--b is lost: it is after --a", "--d is lost: it is after --x"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said: %s", want, got)
		}
	}
}

// TestEveryBindingHasItsField, and a name, a text and its own variable.
func TestEveryBindingHasItsField(t *testing.T) {
	t.Parallel()
	md := (&configv1.Config{}).ProtoReflect().Descriptor()
	for _, fault := range lostFlags(declaredFlags(), config.Bindings()) {
		t.Error(fault)
	}
	seen := make(map[string]bool)
	for _, b := range config.Bindings() {
		if seen[b.Flag] || seen[b.Env] {
			t.Errorf("--%s is there twice", b.Flag)
		}
		seen[b.Flag], seen[b.Env] = true, true
		if b.Path == "" && b.Flag == "config" {
			continue
		}
		fd, ok := config.FieldAt(md, b.Path)
		if isMapping := fd != nil && fd.IsMap() && fd.MapValue().Kind() == protoreflect.StringKind; !ok || config.HasFields(fd) && !isMapping {
			t.Errorf("--%s: no single value at %q", b.Flag, b.Path)
			continue
		}
		if isSwitch := config.TypeName(fd) == "true or false"; isSwitch != (b.Placeholder == "") {
			t.Errorf("--%s: placeholder %q", b.Flag, b.Placeholder)
		}
		if b.Help == "" || strings.HasSuffix(b.Help, ".") {
			t.Errorf("--%s: help %q", b.Flag, b.Help)
		}
	}
}

// TestStdioTakesEveryFlagOfServe, plus those about its one conversation.
func TestStdioTakesEveryFlagOfServe(t *testing.T) {
	t.Parallel()
	want := names(config.Serve)
	want["dialect"], want["max-stdio-queue"] = true, true
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(names(config.Stdio)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name := range names(config.Once) {
		if !want[name] {
			t.Errorf("--%s is a flag of one-time commands only", name)
		}
	}
}

func TestFlagUsages(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.BoolP("json", "j", false, "print JSON")
	flags.String("secret", "", "not for everyone")
	if err := flags.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	if got, want := config.FlagUsages(flags), "Flags:\n  -j, --json\n      print JSON\n\n"; got != want {
		t.Errorf("without configuration: %q, want %q", got, want)
	}
	config.RegisterFlags(flags, config.Serve)
	got := config.FlagUsages(flags)
	for _, want := range []string{
		"Flags:\n  -j, --json\n", "\nBackend:\n  --backend URL\n", "(default 127.0.0.1:8080)\n", "(default 10MiB)\n", "--record-payloads\n",
		"OUTRIGGER_LOG_LEVEL",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if len(line) > 101 {
			t.Errorf("a line of %d: %s", len(line), line)
		}
	}
	for entry := range strings.SplitSeq(got, "\n  --") {
		text, _, _ := strings.Cut(entry, "\n\n")
		if lines := strings.Count(strings.TrimSpace(text), "\n"); lines > 2 {
			t.Errorf("a flag with a text of %d lines, want at most 2: --%s", lines, text)
		}
	}
	if strings.Contains(got, "--secret") || strings.Contains(got, "(default false)") || strings.Contains(got, "later version") {
		t.Error("shows what should be hidden")
	}
}

func TestNearestFlag(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.RegisterFlags(flags, config.Serve)
	for wrong, want := range map[string]string{"max-dept": "max-depth", "max_depth": "max-depth", "no-such-thing-at-all": ""} {
		if got := config.NearestFlag(flags, wrong); got != want {
			t.Errorf("%s: %q, want %q", wrong, got, want)
		}
	}
}

// BenchmarkLoad is what every start pays: the first load compiles the rules.
func BenchmarkLoad(b *testing.B) {
	var yaml strings.Builder
	yaml.WriteString("demo: true\ntools:\n")
	for i := range 1000 {
		yaml.WriteString("  - method: shop.v1.Orders/M" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/50) + "\n    tool: {destructive: true, timeout: 5s}\n")
	}
	for name, text := range map[string]string{"empty": "", "1000 tools": yaml.String()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := load(b, config.Serve, text, nil, []string{"--demo"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
