// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	usageWidth  = 100    // columns of a help text; narrower terminals wrap on their own
	usageIndent = 6      // of a flag's text below its name
	unbroken    = "\x00" // a space at which no line ends
)

// FlagUsages renders the help for all flags of a command: the command's own
// first, then those of RegisterFlags in groups, each with its default.
func FlagUsages(flags *pflag.FlagSet) string { return renderFlags(flags, true) }

// CommonFlagUsages renders the same help with only the most common flags, and
// mentions --help-all if it leaves any out. Where there are few, it shows them all.
func CommonFlagUsages(flags *pflag.FlagSet) string { return renderFlags(flags, HasFewFlags(flags)) }

// fewFlags is the number of flags of RegisterFlags that fit into any help.
const fewFlags = 8

// HasFewFlags reports whether a command has so few flags of RegisterFlags that its help shows them all.
func HasFewFlags(flags *pflag.FlagSet) bool {
	n := 0
	for _, b := range bindings() {
		if flags.Lookup(b.flag) != nil {
			n++
		}
	}
	return n <= fewFlags
}

func renderFlags(flags *pflag.FlagSet, all bool) string {
	grouped := make(map[string][]*pflag.Flag)
	order := []string{"Flags"}
	ours, left := make(map[string]bool), 0
	for _, b := range bindings() {
		f := flags.Lookup(b.flag)
		if f == nil {
			continue
		}
		if _, ok := f.Value.(*rawValue); !ok {
			continue
		}
		ours[b.flag] = true
		if !all && !b.common {
			left++
			continue
		}
		if !slices.Contains(order, b.group) {
			order = append(order, b.group)
		}
		grouped[b.group] = append(grouped[b.group], f)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !ours[f.Name] && !f.Hidden {
			grouped["Flags"] = append(grouped["Flags"], f)
		}
	})

	var b strings.Builder
	for _, group := range order {
		if len(grouped[group]) == 0 {
			continue
		}
		b.WriteString(group + ":\n")
		for _, f := range grouped[group] {
			writeFlag(&b, f)
		}
		b.WriteString("\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "%d more flags: use --help-all to see them all.\n\n", left)
	}
	if len(ours) > 0 {
		b.WriteString(Wrap("Every flag can also be set by an environment variable: --log-level is "+envName("log-level")+
			". Flags override environment variables, and both override the file. Commas separate list items. "+
			"Durations have units (300ms, 1m30s); sizes are bytes or have units (4MiB). OTEL_* variables set up telemetry.", 0, usageWidth))
	}
	return b.String()
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	b.WriteString("  ")
	if f.Shorthand != "" {
		b.WriteString("-" + f.Shorthand + ", ")
	}
	b.WriteString("--" + f.Name)
	if kind := f.Value.Type(); kind != "bool" {
		b.WriteString(" " + kind)
	}
	text := f.Usage
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
		text += " (default" + unbroken + f.DefValue + ")"
	}
	b.WriteString("\n" + strings.ReplaceAll(Wrap(text, usageIndent, usageWidth), unbroken, " "))
}

// Wrap breaks a text between words into lines of at most width columns, each behind the indent. A longer word has a line alone.
func Wrap(text string, indent, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", indent))
			column = indent
		case column+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String() + "\n"
}

// NearestFlag returns the flag that an unknown one was probably meant to be,
// without dashes, or "" if there is none.
func NearestFlag(flags *pflag.FlagSet, wrong string) string {
	known := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	return nearest(wrong, slices.Values(slices.Sorted(maps.Keys(known))))
}

// variables are the environment variables that are ours, by name. An empty one
// counts as not there, because that is how shells and manifests leave one out.
func variables(environ []string) map[string]string {
	ours := make(map[string]string)
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if ok && value != "" && strings.HasPrefix(name, envPrefix) {
			ours[name] = value
		}
	}
	return ours
}

// readEnvironment applies the variables, also those whose flag this command
// does not have: one environment serves every command of a container.
func (d *draft) readEnvironment(vars map[string]string) {
	for _, b := range bindings() {
		name := envName(b.flag)
		if text, ok := vars[name]; ok && b.path != "" {
			d.setText(b.path, []string{text}, origin{source: name})
		}
	}
	d.warnOfUnknown(vars)
}

// serviceLink matches the variables that Kubernetes makes for a Service that is
// itself named outrigger.
var serviceLink = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_|$)|$)`)
})

// warnOfUnknown names variables that are probably misspelt. They are no faults,
// because others may have put them there.
func (d *draft) warnOfUnknown(vars map[string]string) {
	known := make(map[string]bool)
	for _, b := range bindings() {
		known[envName(b.flag)] = true
	}
	for _, flag := range []string{"server", "server-token-file", "server-ca", "admin-token-file"} { // of commands that ask a running sidecar
		known[envName(flag)] = true
	}
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if known[name] || serviceLink().MatchString(name) {
			continue
		}
		message := "unknown variable"
		if instead := RemovedFlag(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-"))); instead != "" {
			d.faults = append(d.faults, Fault{Source: name, Message: instead})
			continue
		}
		if meant := nearest(strings.TrimPrefix(name, envPrefix), withoutPrefix(names)); meant != "" {
			message = fmt.Sprintf("unknown variable; did you mean %s?", envPrefix+meant)
		}
		d.warnings = append(d.warnings, Fault{Source: name, Message: message})
	}
}

func withoutPrefix(names []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, name := range names {
			if !yield(strings.TrimPrefix(name, envPrefix)) {
				return
			}
		}
	}
}

// readFlags applies the flags that were given.
func (d *draft) readFlags(flags *pflag.FlagSet) {
	for _, b := range bindings() {
		if texts := flagTexts(flags, b.flag); texts != nil && b.path != "" {
			d.setText(b.path, texts, origin{source: "--" + b.flag})
		}
	}
}

// flagTexts returns what was given for a flag, or nil. Other flags of the same
// name, not registered here, are not ours to read.
func flagTexts(flags *pflag.FlagSet, name string) []string {
	if flags == nil {
		return nil
	}
	f := flags.Lookup(name)
	if f == nil {
		return nil
	}
	v, ours := f.Value.(*rawValue)
	if !ours {
		return nil
	}
	return v.items
}

// setText sets a field from the text of a flag or variable. Lists are separated
// by commas, and entries of a mapping are written KEY=VALUE.
func (d *draft) setText(path string, texts []string, at origin) {
	// What a weaker source got wrong is reported already, and no reason to keep
	// silent about this value.
	delete(d.faulty, path)
	d.replace(path, at)

	m := d.config.ProtoReflect()
	name := path
	for {
		head, rest, deeper := strings.Cut(name, ".")
		if !deeper {
			break
		}
		m, name = m.Mutable(fieldOf(m, head)).Message(), rest
	}
	fd := fieldOf(m, name)
	if fd.IsMap() {
		d.setEntries(m, fd, path, texts, at)
		return
	}
	if !fd.IsList() {
		if v, ok := d.scalar(fd, path, texts[len(texts)-1], at); ok {
			m.Set(fd, v)
		}
		return
	}
	m.Clear(fd)
	list := m.Mutable(fd).List()
	for text := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if v, ok := d.scalar(fd, path, text, at); ok {
			list.Append(v)
		}
	}
}

// setEntries sets a mapping of texts.
func (d *draft) setEntries(m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, texts []string, at origin) {
	m.Clear(fd)
	entries := m.Mutable(fd).Map()
	for text := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(text), "=")
		switch k := protoreflect.ValueOfString(key).MapKey(); {
		case key == "" && !ok:
		case !ok || key == "":
			d.fault(at, path, "must be entries KEY=VALUE separated by commas, has %s", quote(text))
		case entries.Has(k):
			d.fault(at, path, "has %s twice", quote(key))
		default:
			entries.Set(k, protoreflect.ValueOfString(value))
		}
	}
}

func (d *draft) scalar(fd protoreflect.FieldDescriptor, path, text string, at origin) (protoreflect.Value, bool) {
	v, err := scalarFromText(fd, text)
	if err != nil {
		d.fault(at, path, "%s", err)
		return v, false
	}
	return v, true
}

func fieldOf(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(protoreflect.Name(name))
}

const (
	configFlag = "config"
	envPrefix  = "OUTRIGGER_"
)

// envName is the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// RegisterFlags adds the flags of one kind of command. The flags only collect text:
// Load reports invalid values, together with all other faults.
func RegisterFlags(flags *pflag.FlagSet, kind Kind) {
	defaults := Defaults(kind).ProtoReflect()
	for _, b := range bindings() {
		if b.kinds&kind == 0 {
			continue
		}
		v := &rawValue{placeholder: b.value}
		if b.path != "" {
			fd, _ := fieldAt(defaults.Descriptor(), b.path)
			v.isList = fd.IsList() || fd.IsMap()
			v.text = defaultText(defaults, b.path)
		}
		f := flags.VarPF(v, b.flag, "", b.help)
		if b.value == "" {
			f.NoOptDefVal = "true"
		}
	}
}

// rawValue is a flag's text as given. It implements pflag.Value, and never
// refuses.
type rawValue struct {
	text        string // the default, until it is set
	items       []string
	isList      bool
	placeholder string
}

func (v *rawValue) String() string {
	if v.items == nil {
		return v.text
	}
	return strings.Join(v.items, ",")
}

// Set sets a value. Each flag appends to a list and replaces any other value.
func (v *rawValue) Set(s string) error {
	if v.isList {
		v.items = append(v.items, s)
		return nil
	}
	v.items = []string{s}
	return nil
}

// Type returns the placeholder in pflag's own rendering of the help.
func (v *rawValue) Type() string {
	if v.placeholder == "" {
		return "bool"
	}
	return v.placeholder
}

// fieldAt finds a field by its dotted path.
func fieldAt(md protoreflect.MessageDescriptor, path string) (protoreflect.FieldDescriptor, bool) {
	for {
		name, rest, deeper := strings.Cut(path, ".")
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil || (deeper && !isMessage(fd)) {
			return nil, false
		}
		if !deeper {
			return fd, true
		}
		md, path = fd.Message(), rest
	}
}
