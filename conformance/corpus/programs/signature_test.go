// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestSignaturesAreWhatIsChecked reads the signature of each tool of the catalogs, and writes programs that use all of it: the check knows
// each argument, each attribute and each value of an enum that is shown, and each argument and each field of a result is shown.
func TestSignaturesAreWhatIsChecked(t *testing.T) {
	t.Parallel()
	internal := filepath.Join("..", "..", "..", "internal")
	from := map[string]source.Source{
		"demo":    source.NewDescriptorFile(filepath.Join(internal, "demo", "demo.binpb"), source.Limits{}),
		"garden":  source.NewDescriptorFile(filepath.Join(internal, "catalog", "testdata", "garden-buf.binpb.gz"), source.Limits{}),
		"library": source.NewDescriptorFile(filepath.Join(internal, "catalog", "testdata", "library-buf.binpb.gz"), source.Limits{}),
	}
	for name, packages := range apis() {
		set, services, err := sources.Registered(packages...)
		if err != nil {
			t.Fatal(err)
		}
		from[name] = source.NewDescriptors(name, set, services...)
	}
	for name, src := range from {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := src.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cat, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w, tools, largest := &check.World{Catalog: cat}, 0, 0
			for _, tool := range cat.Tools() {
				text := types.Signatures([]types.Wanted{{Tool: tool}})
				tools, largest = tools+1, max(largest, len(text))
				usesAll(t, w, tool, text)
			}
			t.Logf("%d tools; the largest signature has %d bytes", tools, largest)
		})
	}
}

// signature is what a text shows: fields with their types by the name of the message, the values of enums, and a function.
type signature struct {
	fields    map[string][][2]string
	values    map[string][]string
	function  string
	arguments [][2]string
	result    string
}

// read reads the signature of one tool.
func read(t *testing.T, text string) (s signature) {
	t.Helper()
	s.fields, s.values = map[string][][2]string{}, map[string][]string{}
	into := ""
	add := func(text string) {
		text, _, _ = strings.Cut(text, " # ")
		if text = strings.TrimSpace(text); text == "..." || text == "" || strings.HasPrefix(text, "one of") {
			return
		}
		for one := range strings.SplitSeq(text, ", ") {
			if name, of, ok := strings.Cut(one, ": "); ok {
				s.fields[into] = append(s.fields[into], [2]string{strings.Trim(name, `"`), of})
			} else if one != "..." {
				t.Fatalf("no field: %q", one)
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		if strings.HasPrefix(line, " ") {
			add(line)
			continue
		}
		before, result, isFunction := strings.Cut(line, ") -> ")
		if name, arguments, ok := strings.Cut(line, "("); ok && s.function == "" {
			s.function, into = name, ""
			if !isFunction {
				continue
			}
			before = strings.TrimSuffix(arguments, ") -> "+result)
		}
		if isFunction {
			add(before)
			s.result = strings.TrimSuffix(result, ":")
			into = s.result
			continue
		}
		label, rest, _ := strings.Cut(line, ":")
		if into = label; strings.HasPrefix(rest, " '") {
			for value := range strings.SplitSeq(rest, "|") {
				s.values[label] = append(s.values[label], strings.Trim(value, " '"))
			}
			continue
		}
		add(rest)
	}
	s.arguments = s.fields[""]
	return s
}

// element is the name of the type in lists, maps and signs, and an expression for one of its values.
func element(of, expression string) (label, value string) {
	of = strings.TrimRight(of, "!?")
	switch {
	case strings.HasPrefix(of, "["):
		return element(of[1:len(of)-1], expression+"[0]")
	case strings.HasPrefix(of, "{") && of != "{}":
		_, elem, _ := strings.Cut(of[1:len(of)-1], ": ")
		return element(elem, "list("+expression+".values())[0]")
	}
	return of, expression
}

// usesAll checks a program that uses all of a signature.
func usesAll(t *testing.T, w *check.World, tool *catalog.Tool, text string) {
	t.Helper()
	s := read(t, text)
	lines := []string{"r = " + s.function + "(**inputs.all)"}
	shown := map[string]string{}
	for _, a := range s.arguments {
		shown[a[0]] = a[1]
		lines = append(lines, fmt.Sprintf("x = %s(**{%q: inputs.x})", s.function, a[0]))
	}
	if in := w.Input(tool); in != nil {
		for _, f := range in.Fields() {
			if of, ok := shown[f.Name]; !ok || f.Required != strings.HasSuffix(of, "!") {
				t.Errorf("%s: the argument %s (required %v) is shown as %q", tool.Name, f.Name, f.Required, of)
			}
		}
	}
	lines = append(lines, s.below(s.arguments, func(path []string, value string) string {
		for _, name := range slices.Backward(path[1:]) {
			value = fmt.Sprintf("{%q: %s}", name, value)
		}
		return fmt.Sprintf("x = %s(**{%q: %s})", s.function, path[0], value)
	})...)
	if out := w.Output(tool); out != nil && len(s.fields[s.result]) < len(out.Fields()) {
		t.Errorf("%s: the result has %d fields, %d are shown", tool.Name, len(out.Fields()), len(s.fields[s.result]))
	}
	seen := map[string]bool{}
	var walk func(label, expression string)
	walk = func(label, expression string) {
		for _, value := range s.values[label] {
			lines = append(lines, fmt.Sprintf("x = %s == %q", expression, value))
		}
		if seen[label] {
			return
		}
		seen[label] = true
		for _, f := range s.fields[label] {
			below := expression + "." + f[0]
			if !catalog.IsName(f[0]) {
				below = fmt.Sprintf("getattr(%s, %q)", expression, f[0])
			}
			lines = append(lines, "x = "+below)
			walk(element(f[1], below))
		}
	}
	walk(s.result, "r")
	for part := range slices.Chunk(lines[1:], 25) {
		source := lines[0] + "\n" + strings.Join(part, "\n") + "\nresult = 1"
		parsed, findings := program.Parse(source, program.Limits{Bytes: 1 << 20, Depth: 200})
		if len(findings) == 0 {
			_, findings = parsed.Check(w, []byte(`{"all": {}, "x": null}`))
		}
		for _, f := range findings {
			if f.Rule != "missing-argument" && f.Rule != "wrong-type" {
				t.Errorf("%s: %s: %+v\n%s", tool.Name, strings.Split(source, "\n")[f.Line-1], f, text)
			}
		}
	}
}

// below are lines for the fields of the messages in arguments, each message once. nested writes one for a path.
func (s signature) below(arguments [][2]string, nested func(path []string, value string) string) (lines []string) {
	seen := map[string]bool{}
	type place struct {
		label string
		path  []string
	}
	var queue []place
	visit := func(path []string, of string) {
		plain := strings.TrimRight(of, "!?")
		if _, isMessage := s.fields[plain]; isMessage && !seen[plain] { // what is in lists has the same fields
			seen[plain] = true
			queue = append(queue, place{label: plain, path: path})
		}
	}
	for _, a := range arguments {
		visit([]string{a[0]}, a[1])
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, f := range s.fields[at.label] {
			path := slices.Concat(at.path, []string{f[0]})
			lines = append(lines, nested(path, "inputs.x"))
			visit(path, f[1])
		}
	}
	return lines
}

// TestSignaturesOfOneProgram: types that several tools need are written once, what is left out can be asked for, and the bound is kept.
func TestSignaturesOfOneProgram(t *testing.T) {
	t.Parallel()
	set, services, err := sources.Registered(apis()["temporal"]...)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := source.NewDescriptors("temporal", set, services...).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wanted []types.Wanted
	for _, tool := range cat.Tools()[:20] {
		wanted = append(wanted, types.Wanted{Tool: tool})
	}
	text := types.Signatures(wanted)
	labels := map[string]int{}
	for line := range strings.Lines(text) {
		if label, _, ok := strings.Cut(line, ":"); ok && !strings.ContainsAny(label, " (#)") {
			labels[label]++
		}
	}
	maps.DeleteFunc(labels, func(_ string, n int) bool { return n == 1 })
	if len(labels) > 0 {
		t.Errorf("written more than once: %v", labels)
	}
	tool, ok := cat.Lookup("workflow.get_workflow_execution_history")
	if !ok {
		t.Fatal("no history")
	}
	text = types.Signatures([]types.Wanted{{Tool: tool}})
	_, leftOut, ok := strings.Cut(text, "# Left out, to be described by these names: ")
	if !ok || len(text) > 16<<10 {
		t.Fatalf("%d bytes, and nothing is left out:\n%s", len(text), text)
	}
	name, _, _ := strings.Cut(leftOut, ",")
	_, of, _ := strings.Cut(strings.TrimSpace(name), types.TypeOf)
	if one := (types.Wanted{Tool: tool, Type: of}); !one.Exists() || !strings.Contains(types.Signatures([]types.Wanted{one}), "\n"+of+":") {
		t.Errorf("%q is not described by its name", name)
	}
}
