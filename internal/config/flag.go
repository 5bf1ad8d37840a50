// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
			v.isList = fd.IsList()
			v.text = defaultText(defaults, b.path)
		}
		f := flags.VarPF(v, b.flag, "", b.usage())
		if b.value == "" {
			f.NoOptDefVal = "true"
		}
	}
}

// usage is the help text of the flag, without its default.
func (b binding) usage() string {
	return b.help
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
