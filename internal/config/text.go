// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_|$)|$)`)

// warnOfUnknown names variables that are probably misspelt. They are no faults,
// because others may have put them there.
func (d *draft) warnOfUnknown(vars map[string]string) {
	known := make(map[string]bool)
	for _, b := range bindings() {
		known[envName(b.flag)] = true
	}
	names := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if known[name] || serviceLink.MatchString(name) {
			continue
		}
		message := "unknown variable"
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
// by commas.
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
