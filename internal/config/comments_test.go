// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// comment is what the definition of a field says about it, taken apart.
type comment struct{ text, def, rule string }

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{$`)
	commentLine = regexp.MustCompile(`^ +// ?(.*)$`)
	fieldLine   = regexp.MustCompile(`^ +(?:optional |repeated )?[\w.]+(?:<.*>)? (\w+) = \d+`)

	defaultPart  = regexp.MustCompile(`Default: (.+?)\.(?: |$)`)
	rangePart    = regexp.MustCompile(`Range: (.+?)\.(?: |$)`)
	mostPart     = regexp.MustCompile(`At most ([0-9,]+)[^.]*\.(?: |$)`)
	requiredPart = regexp.MustCompile(`Required\.(?: |$)`)
)

// readComments reads the comments of all fields from the definitions, by
// "Message.field". Their layout is fixed by buf format, so lines are enough.
func readComments(t testing.TB) map[string]comment {
	t.Helper()
	out := make(map[string]comment)
	for _, dir := range []string{"config/v1", "v1"} {
		files, err := filepath.Glob("../../proto/outrigger/" + dir + "/*.proto")
		if err != nil || len(files) == 0 {
			t.Fatalf("definitions in %s: %v, %v", dir, files, err)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			readDefinition(f, out)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func readDefinition(f *os.File, out map[string]comment) {
	message, lines := "", []string(nil)
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := messageLine.FindStringSubmatch(s.Text()); m != nil {
			message = m[1]
		}
		if m := commentLine.FindStringSubmatch(s.Text()); m != nil {
			lines = append(lines, strings.TrimSpace(m[1]))
			continue
		}
		if m := fieldLine.FindStringSubmatch(s.Text()); m != nil {
			out[message+"."+m[1]] = parseComment(strings.Join(lines, " "))
		}
		lines = nil
	}
}

func parseComment(text string) comment {
	var c comment
	cut := func(part *regexp.Regexp) string {
		m := part.FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		text = strings.Replace(text, m[0], "", 1)
		return m[len(m)-1]
	}
	c.def = cut(defaultPart)
	var rules []string
	if requiredPart.MatchString(text) {
		text = requiredPart.ReplaceAllString(text, "")
		rules = append(rules, "required")
	}
	if s := cut(rangePart); s != "" {
		rules = append(rules, s)
	}
	if s := cut(mostPart); s != "" {
		rules = append(rules, "at most "+s+" entries")
	}
	c.rule = strings.Join(rules, ", ")
	c.text = strings.TrimSpace(text)
	return c
}

// leaf is a field that holds a value, or a list of sections.
type leaf struct {
	path string
	fd   protoreflect.FieldDescriptor
}

// leaves walks the whole message in its order.
func leaves(md protoreflect.MessageDescriptor, prefix string) []leaf {
	var out []leaf
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := prefix + string(fd.Name())
		switch {
		case fd.IsMap(), !config.HasFields(fd):
			out = append(out, leaf{path: path, fd: fd})
		case fd.IsList():
			out = append(out, leaf{path: path, fd: fd})
			out = append(out, leaves(fd.Message(), path+"[].")...)
		default:
			out = append(out, leaves(fd.Message(), path+".")...)
		}
	}
	return out
}

func configLeaves() []leaf {
	return leaves((&configv1.Config{}).ProtoReflect().Descriptor(), "")
}

func commentKey(fd protoreflect.FieldDescriptor) string {
	return string(fd.Parent().Name()) + "." + string(fd.Name())
}

// TestEveryFieldIsExplained, and of a type that files can be read into.
func TestEveryFieldIsExplained(t *testing.T) {
	t.Parallel()
	comments := readComments(t)
	known := []protoreflect.Kind{
		protoreflect.BoolKind, protoreflect.StringKind, protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.DoubleKind,
		protoreflect.EnumKind, protoreflect.MessageKind,
	}
	for _, l := range configLeaves() {
		if comments[commentKey(l.fd)].text == "" {
			t.Errorf("%s (%s) has no comment", l.path, l.fd.FullName())
		}
		if !slices.Contains(known, l.fd.Kind()) || l.fd.IsMap() && !slices.Contains([]string{"backend.metadata.static", "backends[].metadata.static", "tools[].properties", "tools[].visible_to", "services", "access.policy.fields", "backend.policy.fields", "backends[].policy.fields"}, l.path) {
			t.Errorf("%s is of a kind that the reader has no test for: %s", l.path, l.fd.Kind())
		}
	}
}

// TestDefaultsAreRead: the text of each default is a value of its field, and comments repeat neither defaults nor flags.
func TestDefaultsAreRead(t *testing.T) {
	t.Parallel()
	comments := readComments(t)
	read := 0
	for _, l := range configLeaves() {
		texts, said := config.DefaultTexts(l.fd), comments[commentKey(l.fd)]
		for _, text := range texts {
			if config.ValueText(l.fd, text) == "" {
				t.Errorf("%s: %q is no value of it", l.path, text)
			}
			read++
		}
		if len(texts) > 0 && said.def == strings.Join(texts, ", ") {
			t.Errorf("%s: the comment repeats the default", l.path)
		}
		if first, _, _ := strings.Cut(said.def, " "); len(texts) > 0 && first != "" && first[0] >= '0' && first[0] <= '9' && strings.TrimSuffix(first, ",") != texts[0] {
			t.Errorf("%s: the comment explains the default %s, which is %s", l.path, first, texts[0])
		}
		if regexp.MustCompile("Flags?: `--").MatchString(said.text) {
			t.Errorf("%s: the comment repeats the flag", l.path)
		}
	}
	if read < 160 {
		t.Errorf("only %d defaults were read", read)
	}
}

// atRunTime are the fields that a reload changes, each with everything below it.
func atRunTime() []string {
	var out []string
	config.EachField(func(fd protoreflect.FieldDescriptor, path string) {
		if config.Reloads(fd) {
			out = append(out, path)
		}
	})
	return out
}

func TestFieldsThatMayChange(t *testing.T) {
	t.Parallel()
	for _, path := range atRunTime() {
		if !config.MayChange(path) || !config.MayChange(path+".x") || config.MayChange(path+"x") {
			t.Errorf("%s: the prefix is not taken for what it is", path)
		}
	}
	for _, path := range []string{"listeners.listen", "backend.url", "limits.max_in_flight", "log.format", "limits", "catalog"} {
		if config.MayChange(path) {
			t.Errorf("%s may change at run time", path)
		}
	}
}

// TestOperatorsReadTheSameList compares the list with the page for operators.
func TestOperatorsReadTheSameList(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(page), "<!-- fields that may change -->")
	list, _, ended := strings.Cut(list, "<!-- end -->")
	if !ok || !ended {
		t.Fatal("docs/operations.md has no list of the fields that may change")
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)`").FindAllStringSubmatch(list, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	want := atRunTime()
	slices.Sort(want)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/operations.md (-code +page):\n%s", diff)
	}
}
