// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestPatterns: each pattern that schemas of the corpus show matches in ECMA 262, with the flag u and with v, what RE2 matches with the pattern
// that the rule has, and so does the sidecar's validator. The texts are made of the pattern, and changed where the engines differ.
func TestPatterns(t *testing.T) {
	t.Parallel()
	set := sources.Linked()
	shown := map[string]string{} // the pattern of a rule, or that of a schema, by what is shown for it
	rules := rulePatterns(set)
	inWords := 0
	for _, pattern := range rules {
		found := patternsOf(t, messageWith(t, pattern), schema.Input)
		if len(found) == 0 {
			inWords++
			continue
		}
		shown[found[0]] = pattern
	}
	for _, md := range sample(set.Messages()) {
		for _, direction := range []schema.Direction{schema.Input, schema.Output} {
			for _, pattern := range patternsOf(t, md, direction) {
				shown[pattern] = cmp.Or(shown[pattern], pattern)
			}
		}
	}
	t.Logf("%d patterns of rules, %d of them in words; %d patterns are shown", len(rules), inWords, len(shown))
	if len(rules) < 10 || len(shown) < 20 {
		t.Errorf("%d patterns of rules and %d that are shown: are they found?", len(rules), len(shown))
	}
	var cases []map[string]any
	random := rand.New(rand.NewPCG(1, 2))
	for _, pattern := range slices.Sorted(maps.Keys(shown)) {
		original := regexp.MustCompile(shown[pattern])
		validator, err := schema.Compile([]byte(`{"type":"string","pattern":` + quoted(t, pattern) + `}`))
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		texts := textsFor(t, random, shown[pattern])
		want, matches := make([]bool, len(texts)), 0
		for i, text := range texts {
			want[i] = original.MatchString(text)
			if want[i] {
				matches++
			}
			violations, err := validator.Validate([]byte(quoted(t, text)))
			if err != nil || (violations == nil) != want[i] {
				t.Errorf("%s is shown as %s, and the validator differs on %q: %v, %v", shown[pattern], pattern, text, violations, err)
			}
		}
		if matches == 0 || matches == len(texts) {
			t.Logf("%s matches %d of %d texts", pattern, matches, len(texts))
		}
		cases = append(cases, map[string]any{"original": shown[pattern], "pattern": pattern, "texts": texts, "want": want})
	}
	compareWithNode(t, cases)
}

// compareWithNode takes Node from OUTRIGGER_NODE, or the installed one.
func compareWithNode(t *testing.T, cases []map[string]any) {
	t.Helper()
	node, err := exec.LookPath(cmp.Or(os.Getenv("OUTRIGGER_NODE"), "node"))
	if err != nil {
		t.Skip("no Node: set OUTRIGGER_NODE, as `make corpus-short` does")
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "-e", `
		for (const {original, pattern, texts, want} of JSON.parse(require("fs").readFileSync(0, "utf8"))) for (const flag of ["u", "v"]) {
			let re;
			try { re = new RegExp(pattern, flag); } catch (e) { console.log(original + " is shown as " + pattern + ": " + e.message); continue; }
			texts.forEach((text, i) => { if (re.test(text) !== want[i]) console.log(original + " is shown as " + pattern + ", which differs with " + flag + " on " + JSON.stringify(text)); });
		}`)
	run.Stdin = bytes.NewReader(input)
	said, err := run.CombinedOutput()
	if err != nil || len(said) > 0 {
		t.Errorf("%v\n%.4000s", err, said)
	}
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rulePatterns are the patterns that rules of the set have, those of protovalidate and of protoc-gen-validate.
func rulePatterns(set *sources.Set) []string {
	found := map[string]bool{}
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case fd.Name() == "pattern" && m.Descriptor().Name() == "StringRules":
				found[v.String()] = true
			case fd.Message() != nil && !fd.IsList() && !fd.IsMap():
				walk(v.Message())
			}
			return true
		})
	}
	for _, md := range set.Messages() {
		for i := range md.Fields().Len() {
			walk(md.Fields().Get(i).Options().ProtoReflect())
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// messageWith is a message of one text with a pattern.
func messageWith(t *testing.T, pattern string) protoreflect.MessageDescriptor {
	t.Helper()
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, validate.E_Field, validate.FieldRules_builder{String: validate.StringRules_builder{Pattern: &pattern}.Build()}.Build())
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("pattern.proto"), Syntax: proto.String("proto3"), Dependency: []string{"buf/validate/validate.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("text"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: options,
		}}}},
	}, sources.Linked().Files)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// patternsOf are the patterns in the schema of a message, and the names of members that are patterns.
func patternsOf(t *testing.T, md protoreflect.MessageDescriptor, direction schema.Direction) []string {
	t.Helper()
	derived, err := schema.Derive(md, direction, schema.Options{})
	if err != nil {
		t.Fatalf("%s: %v", md.FullName(), err)
	}
	var out []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if text, ok := value.(string); ok && key == "pattern" {
					out = append(out, text)
				}
				if members, ok := value.(map[string]any); ok && key == "patternProperties" {
					out = append(out, slices.Collect(maps.Keys(members))...)
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	var doc any
	if err := json.Unmarshal(derived.Advertised, &doc); err != nil {
		t.Fatal(err)
	}
	walk(doc)
	return out
}

// oddities are what the engines are at odds about.
const oddities = "\n\r\u2028\u2029\u00a0\u0085\ufeff\v\f\t \u017f\u212aé[](){}/|-^$.\\&!_\U0001f600"

// textsFor are texts that match a pattern, and such with a character more, less, or another.
func textsFor(t *testing.T, random *rand.Rand, pattern string) []string {
	t.Helper()
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{""}
	odd := []rune(oddities)
	for _, r := range odd {
		out = append(out, string(r))
	}
	for range 20 {
		var b strings.Builder
		write(&b, random, tree)
		text := []rune(b.String())
		out = append(out, string(text))
		for range 4 {
			at, by := random.IntN(len(text)+1), odd[random.IntN(len(odd))]
			switch changed := slices.Clone(text); {
			case random.IntN(3) == 0 || at == len(text):
				out = append(out, string(slices.Insert(changed, at, by)))
			case random.IntN(2) == 0:
				changed[at] = by
				out = append(out, string(changed))
			default:
				out = append(out, string(slices.Delete(changed, at, at+1)))
			}
		}
	}
	return out
}

// write writes a text that a pattern matches, as far as it has no anchors within.
func write(b *strings.Builder, random *rand.Rand, re *syntax.Regexp) {
	times := func(least, most int) {
		if most < 0 || most > least+3 {
			most = least + 3
		}
		for range least + random.IntN(most-least+1) {
			write(b, random, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) == 0 {
			return
		}
		at := 2 * random.IntN(len(re.Rune)/2)
		r := re.Rune[at] + rune(random.IntN(int(min(re.Rune[at+1]-re.Rune[at], 200)+1)))
		if r >= 0xd800 && r < 0xe000 {
			r = re.Rune[at]
		}
		fmt.Fprintf(b, "%c", r)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte(byte('a' + random.IntN(26)))
	case syntax.OpStar:
		times(0, -1)
	case syntax.OpPlus:
		times(1, -1)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpRepeat:
		times(re.Min, re.Max)
	case syntax.OpAlternate:
		write(b, random, re.Sub[random.IntN(len(re.Sub))])
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			write(b, random, sub)
		}
	default: // an anchor
	}
}
