// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
)

// comment is what the definition of a field says about it, taken apart.
type comment struct {
	text, def, rule, flag string
	flags                 []string // where it names several
}

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{$`)
	commentLine = regexp.MustCompile(`^ +// ?(.*)$`)
	fieldLine   = regexp.MustCompile(`^ +(?:optional |repeated )?[\w.]+(?:<.*>)? (\w+) = \d+`)

	defaultPart  = regexp.MustCompile(`Default: (.+?)\.(?: |$)`)
	rangePart    = regexp.MustCompile(`Range: (.+?)\.(?: |$)`)
	mostPart     = regexp.MustCompile(`At most ([0-9,]+)[^.]*\.(?: |$)`)
	requiredPart = regexp.MustCompile(`Required\.(?: |$)`)
	flagPart     = regexp.MustCompile("Flags?: ((?:`--[a-z-]+`(?:, )?)+)\\.(?: |$)")
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
	for flag := range strings.SplitSeq(cut(flagPart), ", ") {
		c.flags = append(c.flags, strings.Trim(flag, "`-"))
	}
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
	// outer is the field whose message this is a field of, and at the position
	// among those.
	outer protoreflect.FieldDescriptor
	at    int
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
			inner := leaves(fd.Message(), path+".")
			for at := range inner {
				if inner[at].fd.Parent() == fd.Message() {
					inner[at].outer, inner[at].at = fd, inner[at].fd.Index()
				}
			}
			out = append(out, inner...)
		}
	}
	return out
}

func configLeaves() []leaf {
	return leaves((&configv1.Config{}).ProtoReflect().Descriptor(), "")
}

// comment is the comment on the field. Where several fields have one message
// (Rate), their own comments name the flags of its fields, in their order.
func (l leaf) comment(comments map[string]comment) comment {
	c := comments[commentKey(l.fd)]
	if len(c.flags) > 0 {
		c.flag = c.flags[0]
	}
	if c.flag == "" && l.outer != nil {
		if flags := comments[commentKey(l.outer)].flags; l.at < len(flags) {
			c.flag = flags[l.at]
		}
	}
	return c
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
		if l.comment(comments).text == "" {
			t.Errorf("%s (%s) has no comment", l.path, l.fd.FullName())
		}
		if !slices.Contains(known, l.fd.Kind()) || l.fd.IsMap() && !slices.Contains([]string{"backend.metadata.static", "tools[].properties"}, l.path) {
			t.Errorf("%s is of a kind that the reader has no test for: %s", l.path, l.fd.Kind())
		}
	}
}

// TestFlagsAndCommentsAgree in both directions.
func TestFlagsAndCommentsAgree(t *testing.T) {
	t.Parallel()
	comments := readComments(t)
	byPath := make(map[string]string)
	for _, b := range config.Bindings() {
		if b.Path != "" {
			byPath[b.Path] = b.Flag
		}
	}
	fromComments := make(map[string]string)
	for _, l := range configLeaves() {
		if flag := l.comment(comments).flag; flag != "" {
			fromComments[l.path] = flag
		}
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		if fromComments[path] != byPath[path] {
			t.Errorf("%s: flag --%s, comment says %q", path, byPath[path], fromComments[path])
		}
		delete(fromComments, path)
	}
	for path, flag := range fromComments {
		t.Errorf("%s: the comment promises --%s, which is not there", path, flag)
	}
}

// TestDefaultsAndCommentsAgree: the definition is what people read, so it may
// not lie.
func TestDefaultsAndCommentsAgree(t *testing.T) {
	t.Parallel()
	comments := readComments(t)
	defaults := config.Defaults(config.Serve).ProtoReflect()
	startsWithNumber := regexp.MustCompile(`^[0-9]`)
	checked := 0
	for _, l := range configLeaves() {
		if strings.Contains(l.path, "[]") {
			continue // what an entry leaves out is for its reader
		}
		said := strings.ReplaceAll(l.comment(comments).def, `"`, "")
		actual := config.DefaultText(defaults, l.path)
		switch {
		case actual == "":
			if startsWithNumber.MatchString(said) {
				t.Errorf("%s: the comment says %q, there is no default", l.path, said)
			}
		case l.fd.IsList():
			if said != actual {
				t.Errorf("%s: default %q, comment says %q", l.path, actual, said)
			}
			checked++
		default:
			// "10485760 (10 MiB)" for people is 10MiB here; reasons may follow.
			if m := regexp.MustCompile(`^[0-9]+ \(([0-9]+) ([KM]iB)\)$`).FindStringSubmatch(said); m != nil {
				said = m[1] + m[2]
			}
			if first := strings.TrimRight(strings.Fields(said + " ?")[0], ",;"); first != actual {
				t.Errorf("%s: default %q, comment says %q", l.path, actual, said)
			}
			checked++
		}
	}
	if checked < 40 {
		t.Errorf("only %d defaults were compared", checked)
	}
}
