// SPDX-License-Identifier: Apache-2.0

// Package config makes one validated configuration out of defaults, a YAML file,
// the environment and flags, before anything else starts.
//
// The configuration is the message outrigger.config.v1.Config. A command calls
// RegisterFlags while it is built, and Load when it runs:
//
//	config.RegisterFlags(cmd.Flags(), config.Serve)
//	...
//	cfg, err := config.Load(config.Serve, cmd.Flags(), environ, config.Options{})
//
// Flags override the environment, the environment overrides the file, and the file
// overrides the defaults. A list from a stronger source replaces the weaker one's.
//
// Load refuses unknown and repeated keys, wrong types, values out of range,
// YAML aliases, files above MaxFileBytes, and combinations that cannot work or
// would not be safe. It does not stop at the first fault. An *Error holds every
// fault with its path and its source: the line in the file, the variable or the flag.
//
// The caller owns what Load returns. Nothing is shared, so everything is safe for
// concurrent use.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Config is a validated configuration. Every field that has a default is set, so
// that readers need no defaults.
type Config struct {
	*configv1.Config
	// File is the path of the configuration file; empty if there was none.
	File string
	// Warnings are for the log: settings without effect, and variables that are
	// probably misspelled.
	Warnings []Fault
}

// Options change how Load works. The zero value is valid.
type Options struct {
	// MaxFileBytes bounds the file. Default: MaxFileBytes of this package.
	MaxFileBytes int64
	// Checks run at the end, for rules that other packages know.
	Checks []Check
}

// Check checks a configuration against rules of another package. For each fault it
// calls report with the field's path ("backend.metadata.inbound[2]") and a message.
// report adds the source of the value. A path in capitals is the name of an environment
// variable of others ("OTEL_TRACES_SAMPLER").
type Check = func(cfg *configv1.Config, report func(path, message string))

// Load makes the configuration of one command from its flags (registered by
// RegisterFlags, and parsed), the environment (in the form of os.Environ) and the
// file that either of them names.
//
// The error is an *Error with all faults, unless the rules of the message itself
// cannot be evaluated.
func Load(kind Kind, flags *pflag.FlagSet, environ []string, o Options) (*Config, error) {
	d := newDraft(Defaults(kind))
	vars := variables(environ)

	file, at := fileName(flags, vars)
	if file != "" {
		d.readFile(file, at, cmp.Or(o.MaxFileBytes, MaxFileBytes))
	}
	d.readEnvironment(vars)
	d.readFlags(flags)

	if err := d.checkRules(Defaults(kind)); err != nil {
		return nil, err
	}
	d.checkSense(kind)
	if d.checkFiles() {
		for _, check := range o.Checks {
			check(d.config, d.judge)
		}
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return &Config{Config: d.config, File: file, Warnings: d.warnings}, nil
}

// Verify validates a configuration that a program has built, as Load validates one that
// it read. The error is an *Error, as for Load.
func Verify(kind Kind, cfg *configv1.Config, o Options) error {
	d := newDraft(cfg)
	if err := d.checkRules(Defaults(kind)); err != nil {
		return err
	}
	d.checkSense(kind)
	if d.checkFiles() {
		for _, check := range o.Checks {
			check(d.config, d.judge)
		}
	}
	if len(d.faults) > 0 {
		return errorFromFaults(d.faults)
	}
	return nil
}

// fileName finds the configuration file, and who named it.
func fileName(flags *pflag.FlagSet, vars map[string]string) (string, origin) {
	if texts := flagTexts(flags, configFlag); texts != nil {
		return texts[len(texts)-1], origin{source: "--" + configFlag}
	}
	name := envName(configFlag)
	return vars[name], origin{source: name}
}

// ResolveRecords replaces stateRecords with a path, from the environment in the form of
// os.Environ: below XDG_STATE_HOME, or below ~/.local/state where that is unset or relative
// (XDG Base Directory Specification 0.8). Without either, records are off, with a warning.
func (c *Config) ResolveRecords(environ []string) {
	if c.GetRecord().GetDir() != stateRecords {
		return
	}
	var state, home string
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); {
		case !filepath.IsAbs(value):
		case name == "XDG_STATE_HOME":
			state = value
		case name == "HOME":
			home = filepath.Join(value, ".local", "state")
		}
	}
	if state = cmp.Or(state, home); state != "" {
		c.Record.Dir = new(filepath.Join(state, "outrigger", "runs"))
		return
	}
	c.Record.Dir = new("off")
	c.Warnings = append(c.Warnings, Fault{
		Path: "record.dir", Message: "run records are off, because neither XDG_STATE_HOME nor HOME names a directory; set --record-dir to a directory, or to off",
	})
}

// origin is where a value came from. The zero value is a default.
type origin struct {
	source       string
	line, column int
}

// draft is a configuration in the making: the message, where each value of it
// came from, and what was found wrong so far.
type draft struct {
	// root is the message in the making; config is the same where it is a
	// configuration, else nil.
	root proto.Message
	// kind names the file for people; empty for the configuration file.
	kind    string
	config  *configv1.Config
	origins map[string]origin
	// secret: the file may hold credentials, or what somebody took for the place
	// of one. No part of its text is repeated.
	secret bool
	// faulty are the paths that are known to be wrong. Later checks are silent
	// about them, because the value that they would see is not the one meant.
	faulty map[string]bool
	// misspelt are the paths that an unknown key was probably meant to be. They
	// are not missing.
	misspelt map[string]bool
	faults   []Fault
	warnings []Fault
	// unread is set when the file could not be understood as a whole, so that
	// what seems to be missing may well be in it.
	unread bool
}

func newDraft(defaults *configv1.Config) *draft {
	d := newDraftOf(defaults)
	d.config = defaults
	return d
}

func newDraftOf(root proto.Message) *draft {
	return &draft{root: root, origins: make(map[string]origin), faulty: make(map[string]bool), misspelt: make(map[string]bool)}
}

// replace remembers that a stronger source set a value, and forgets what the
// file said about it and its parts.
func (d *draft) replace(path string, at origin) {
	for p := range d.origins {
		if isWithin(p, path) {
			delete(d.origins, p)
		}
	}
	d.origins[path] = at
}

// given reports whether the path was set by anyone.
func (d *draft) given(path string) bool {
	_, ok := d.origins[path]
	return ok
}

// at finds where a value, or else the closest thing around it, came from.
func (d *draft) at(path string) origin {
	for p := path; p != ""; p = parent(p) {
		if at, ok := d.origins[p]; ok {
			return at
		}
	}
	return origin{}
}

// fault records what is wrong with a value that was read at a known place.
func (d *draft) fault(at origin, path, format string, args ...any) {
	d.faulty[path] = true
	d.faults = append(d.faults, at.fault(path, fmt.Sprintf(format, args...)))
}

// judge records what a later check says, unless the value was found wrong
// already.
func (d *draft) judge(path, message string) {
	if isVariable(path) {
		d.faults = append(d.faults, Fault{Source: path, Message: message})
		return
	}
	for p := path; p != ""; p = parent(p) {
		if d.faulty[p] || (d.misspelt[p] && !d.given(p)) {
			return
		}
	}
	d.fault(d.at(path), path, "%s", message)
}

// isVariable reports whether a path is the name of an environment variable.
func isVariable(path string) bool { return path != "" && path == strings.ToUpper(path) }

func (d *draft) warn(path, message string) {
	d.warnings = append(d.warnings, d.at(path).fault(path, message))
}

func (o origin) fault(path, message string) Fault {
	return Fault{Source: o.source, Path: path, Line: o.line, Column: o.column, Message: message}
}

// parent cuts the last part off a path: "a.b[2]" gives "a.b", then "a", then "".
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// isWithin reports whether p is the path itself or a part of it.
func isWithin(p, path string) bool {
	rest, ok := strings.CutPrefix(p, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// checkFiles refuses files that are none: to open a pipe waits for a writer, and some devices have no end. It returns false
// if there is one, after which no other check may open it. A file that is missing is another matter.
func (d *draft) checkFiles() (ok bool) {
	ok = true
	_ = protorange.Range(d.root.ProtoReflect(), func(values protopath.Values) error {
		at := values.Index(-1)
		if at.Step.Kind() != protopath.FieldAccessStep || !strings.HasSuffix(string(at.Step.FieldDescriptor().Name()), "_file") {
			return nil
		}
		name, isText := at.Value.Interface().(string)
		if why := notAFile(name); isText && why != "" {
			ok = false
			d.judge(strings.TrimPrefix(values.Path[1:].String(), "."), name+" "+why)
		}
		return nil
	})
	return ok
}

// notAFile says what a path leads to that is neither a file nor a folder; folders have words of their own.
func notAFile(name string) string {
	info, err := os.Stat(name)
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return ""
	}
	what := "device"
	switch info.Mode().Type() {
	case fs.ModeNamedPipe:
		what = "pipe"
	case fs.ModeSocket:
		what = "socket"
	}
	return fmt.Sprintf("is a %s; want a regular file", what)
}

// maxFaults bounds the faults of one Error. More than a hundred are a sign of
// the wrong file rather than of a hundred mistakes.
const maxFaults = 100

// Fault is one error in the configuration.
type Fault struct {
	// Source is the file's name, a flag ("--timeout"), or an environment
	// variable. It is empty if the fault is a missing value.
	Source string
	// Path is the field, such as "tools[3].method". It is empty for a fault of
	// the file as a whole.
	Path string
	// Line and Column count from 1. They are 0 for sources other than a file.
	Line, Column int
	// Message says what is wrong and, where possible, what to do.
	Message string
}

// String formats the fault on one line, as compilers do.
func (f Fault) String() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(f.Source)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	// A flag or a variable is a name for its field already.
	if f.Path != "" && (f.Source == "" || f.Line > 0) {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Error is the error of an invalid configuration.
type Error struct {
	// Faults are all faults found: first those of the file by line, then those of
	// the environment, of flags, and missing values. There is at least one, and there
	// are at most 100.
	Faults []Fault
	// Omitted is the number of faults beyond that limit.
	Omitted int
}

// Error formats the faults, one per line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if e.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.Omitted))
	}
	return strings.Join(lines, "\n")
}

// errorFromFaults sorts and bounds the faults. It keeps the order in which they
// were found where nothing else orders them.
func errorFromFaults(faults []Fault) *Error {
	sorted := slices.Clone(faults)
	slices.SortStableFunc(sorted, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	e := &Error{Faults: sorted}
	if len(sorted) > maxFaults {
		e.Faults, e.Omitted = sorted[:maxFaults], len(sorted)-maxFaults
	}
	return e
}

func (f Fault) rank() int {
	switch {
	case f.Source == "":
		return 3
	case strings.HasPrefix(f.Source, "--"):
		return 2
	case strings.HasPrefix(f.Source, envPrefix), isVariable(f.Source):
		return 1
	default:
		return 0
	}
}

// MaxFileBytes is the maximum size of the configuration file. It is the limit of a
// Kubernetes ConfigMap, so a larger file could not be deployed everywhere.
const MaxFileBytes = 1 << 20

// maxFileDepth bounds how deep the file may be nested. It is the bound on
// callers' JSON; the message itself needs less than ten levels.
const maxFileDepth = 64

// readFile reads the file into the draft.
func (d *draft) readFile(name string, at origin, most int64) {
	kind := "configuration file"
	if d.kind != "" {
		kind = d.kind
	}
	data, err := readBounded(kind, name, most)
	if err != nil {
		d.unread = true
		d.fault(at, "", "%s", err)
		return
	}
	d.readYAML(name, data)
}

// readBounded reads a whole file, or says why not in words that need no name
// before them but the flag's.
func readBounded(kind, name string, most int64) ([]byte, error) {
	if why := notAFile(name); why != "" {
		return nil, fmt.Errorf("the %s %s %s", kind, name, why)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", kind, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", kind, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("the %s %s is larger than %d bytes", kind, name, most)
	}
	return data, nil
}

// readYAML reads one YAML document into the draft. An empty one says nothing.
func (d *draft) readYAML(name string, data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, further yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		d.unreadable(name, err)
		return
	}
	w := walker{draft: d, file: name}
	if err := decoder.Decode(&further); err == nil {
		w.fault(&further, "", "a second YAML document; one file holds one configuration")
	} else if !errors.Is(err, io.EOF) {
		d.unreadable(name, err)
		return
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return
	}
	w.message(document.Content[0], d.root.ProtoReflect(), "", 0)
}

// unreadable records a syntax error. The parser has no type for its errors; the
// line is in the text.
func (d *draft) unreadable(name string, err error) {
	d.unread = true
	at := origin{source: name}
	text := err.Error()
	if m := regexp.MustCompile(`^yaml: line (\d+): (.*)$`).FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			at.line, at.column, text = line, 1, m[2]
		}
	}
	// A value that begins with "*" and has no quotes is an alias; it may be a credential.
	text = regexp.MustCompile(`unknown anchor '.*' referenced`).ReplaceAllString(text, "unknown anchor: a value that begins with * needs quotes")
	if d.secret {
		text = "the text here is not well-formed" // the parser's words may quote it
	}
	d.fault(at, "", "is not YAML: %s", text)
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// isMessage reports whether a field itself has fields, from the reader's
// point of view.
func isMessage(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && !isDuration(fd) && !isTimestamp(fd) && !isStruct(fd)
}

// tagFits reports whether YAML took the scalar for the type that the field has.
func tagFits(n *yaml.Node, fd protoreflect.FieldDescriptor) bool {
	tag := n.ShortTag()
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return tag == "!!bool"
	case protoreflect.DoubleKind:
		return tag == "!!int" || tag == "!!float"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		// A fraction is refused by its text, like a duration without a unit.
		return tag == "!!int" || tag == "!!float" || (isSize(fd) && tag == "!!str")
	case protoreflect.MessageKind:
		return tag == "!!str" || tag == "!!timestamp" || tag == "!!int" || tag == "!!float"
	default:
		return tag == "!!str" || tag == "!!timestamp"
	}
}

// typeName names a field's type in words, for messages and the reference.
func typeName(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "a mapping"
	case isDuration(fd):
		return "a duration"
	case isTimestamp(fd):
		return "a time"
	case isSize(fd):
		return "a size"
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "a whole number"
	case protoreflect.EnumKind:
		return "a name"
	default:
		return "a mapping"
	}
}

// hint helps with a scalar that YAML took for another type than was meant.
func (w *walker) hint(n *yaml.Node, fd protoreflect.FieldDescriptor) string {
	switch {
	case w.secret && fd.Kind() == protoreflect.StringKind:
		return "; put it in quotes"
	case w.secret:
		return ""
	case fd.Kind() == protoreflect.StringKind:
		return "; put it in quotes: " + quote(n.Value)
	case n.ShortTag() == "!!str":
		return ": " + quote(n.Value)
	default:
		return ""
	}
}

func kindName(k yaml.Kind) string {
	switch k {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "one value"
	}
}

// nodeName names what is in the file.
func (w *walker) nodeName(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindName(n.Kind)
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return "a string"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "null"
	default:
		return "of the type " + quote(w.shown(n.ShortTag()))
	}
}
