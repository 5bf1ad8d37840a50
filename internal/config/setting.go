// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// binding ties a flag, and the environment variable of the same name, to a
// field of the message.
type binding struct {
	flag  string
	path  string // of the field; empty for --config, which is not in the file
	kinds Kind   // commands that have the flag
	// common flags are the ones that `--help` shows; `--help-all` shows the rest.
	common bool
	group  string
	value  string // placeholder in the help; empty for a switch
	help   string
}

const (
	everyKind = Serve | Stdio | Once
	longLived = Serve | Stdio
)

// bindings lists every flag in the order of the help: by group, and there in the order
// of the fields, or behind the flag that one names.
var bindings = sync.OnceValue(func() []binding {
	var all []binding
	behind := make(map[string]binding)
	groups := make([][]binding, len(configv1.HelpGroup_name))
	eachField(configDescriptor(), "", func(fd protoreflect.FieldDescriptor, path string) {
		for _, f := range option[[]*configv1.Flag](fd, configv1.E_Flag) {
			b := bindingOf(fd, path, f)
			if f.GetAfter() != "" {
				behind[f.GetAfter()] = b
				continue
			}
			groups[f.GetGroup()] = append(groups[f.GetGroup()], b)
		}
	})
	last := &groups[configv1.HelpGroup_HELP_GROUP_CONFIGURATION]
	*last = slices.Insert(*last, 0, binding{
		flag: configFlag, kinds: everyKind | State, common: true, group: heading(configv1.HelpGroup_HELP_GROUP_CONFIGURATION), value: "FILE",
		help: "YAML configuration file; flags and environment variables override it. Example: sidecar.yaml",
	})
	for _, b := range slices.Concat(groups...) {
		for found := true; found; b, found = behind[b.flag] {
			all = append(all, b)
		}
	}
	return all
})

// bindingOf is a flag of the field at a path.
func bindingOf(fd protoreflect.FieldDescriptor, path string, f *configv1.Flag) binding {
	if f.GetField() != "" {
		path, fd = path+"."+f.GetField(), fd.Message().Fields().ByName(protoreflect.Name(f.GetField()))
	}
	b := binding{flag: f.GetName(), path: path, kinds: longLived, common: f.GetCommon(), group: heading(f.GetGroup()), value: f.GetValue(), help: f.GetHelp()}
	switch {
	case f.GetOnce():
		b.kinds = everyKind
	case f.GetState():
		b.kinds |= State
	case f.GetStdioOnly():
		b.kinds = Stdio
	}
	if b.value == "" {
		b.value = placeholder(fd)
	}
	return b
}

// placeholder is what the help shows for the value of a field whose flag has no words for it.
func placeholder(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.Kind() == protoreflect.BoolKind:
		return ""
	case isDuration(fd):
		return "DURATION"
	case isSize(fd):
		return "SIZE"
	case strings.HasSuffix(string(fd.Name()), "_percent"):
		return "PERCENT"
	case fd.Kind() == protoreflect.StringKind:
		return "FILE"
	}
	return "N"
}

// heading is the name of a group in words.
func heading(g configv1.HelpGroup) string {
	words := strings.ReplaceAll(strings.TrimPrefix(g.String(), "HELP_GROUP_"), "_", " ")
	return words[:1] + strings.ToLower(words[1:])
}

func configDescriptor() protoreflect.MessageDescriptor {
	return (*configv1.Config)(nil).ProtoReflect().Descriptor()
}

// eachField visits the fields of a message and of the messages in it, with their paths. It
// does not enter lists and maps.
func eachField(md protoreflect.MessageDescriptor, prefix string, visit func(fd protoreflect.FieldDescriptor, path string)) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		path := prefix + string(fd.Name())
		visit(fd, path)
		if isMessage(fd) && fd.Cardinality() != protoreflect.Repeated {
			eachField(fd.Message(), path+".", visit)
		}
	}
}

// option is an option of a field; the zero value where the field has none.
func option[T any](fd protoreflect.FieldDescriptor, of protoreflect.ExtensionType) T {
	value, _ := proto.GetExtension(fd.Options(), of).(T)
	return value
}

// stateRecords is the default directory of run records. Only ResolveRecords expands it.
const stateRecords = "$XDG_STATE_HOME/outrigger/runs"

var (
	serveDefaults = sync.OnceValue(func() *configv1.Config { return newDefaults(configv1.E_ServeDefault) })
	otherDefaults = sync.OnceValue(func() *configv1.Config { return newDefaults(nil) })
)

// Defaults returns the default configuration of a command, as the options of its fields say.
func Defaults(kind Kind) *configv1.Config {
	if kind == Serve {
		return proto.CloneOf(serveDefaults())
	}
	return proto.CloneOf(otherDefaults())
}

func newDefaults(special protoreflect.ExtensionType) *configv1.Config {
	cfg := &configv1.Config{Server: &configv1.Server{}}
	setDefaults(cfg.ProtoReflect(), special)
	return cfg
}

// setDefaults sets the fields of a message that have a default, and reports whether there
// are any. The special option wins.
func setDefaults(m protoreflect.Message, special protoreflect.ExtensionType) (has bool) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if isMessage(fd) {
			if inner := m.NewField(fd); fd.Cardinality() != protoreflect.Repeated && setDefaults(inner.Message(), special) {
				m.Set(fd, inner)
				has = true
			}
			continue
		}
		texts := option[[]string](fd, configv1.E_Default)
		if special != nil {
			if text := option[string](fd, special); text != "" {
				texts = []string{text}
			}
		}
		for _, text := range texts {
			// A test reads all of them.
			v, _ := scalarFromText(fd, text)
			if fd.IsList() {
				m.Mutable(fd).List().Append(v)
			} else {
				m.Set(fd, v)
			}
			has = true
		}
	}
	return has
}

// entryDefaults are the defaults of an entry of a list: those of the one backend for each of several. Other entries have none.
func entryDefaults(fd protoreflect.FieldDescriptor) protoreflect.Message {
	if fd.Name() != "backends" {
		return nil
	}
	return Defaults(Once).GetBackend().ProtoReflect()
}

// MayChange reports whether a change of the field at a path takes effect while the sidecar
// runs. All other fields take effect at the next start: they determine what was built at
// startup (listeners, connections, buffers and tables of a fixed size), or callers have
// already been informed of them.
func MayChange(path string) bool {
	md := configDescriptor()
	for path != "" && md != nil {
		name, rest, _ := strings.Cut(path, ".")
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			return false
		}
		if option[bool](fd, configv1.E_Reload) {
			return true
		}
		md, path = fd.Message(), rest
	}
	return false
}
