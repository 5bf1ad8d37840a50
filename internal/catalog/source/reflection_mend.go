// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// ErrUndescribed means that a server lists services and describes none of them completely.
var ErrUndescribed = errors.New("the server describes none of its services")

// maxMendQuestions bounds the symbols that are asked for because a file does not import what it uses.
const maxMendQuestions = 1_000

// wellKnownFolder begins the paths of the files that every Protobuf compiler has.
const wellKnownFolder = "google/protobuf/"

// mender completes files that the linker would refuse. Servers that make descriptors out of something else than a compiler's
// output (@grpc/reflection of Node) send them without imports, with type names as they were written, and with map entries
// named like their fields. Others serve a file under another name than the one that its importers have for it.
type mender struct {
	asked map[string]bool // symbols
	// dropped are files that stand for others, which are used instead.
	dropped map[string]bool
	// broken are files that cannot be completed, by name.
	broken map[string]error
	// rewritten counts the files that were mended, incomplete those of them that no compiler writes.
	rewritten, incomplete int
}

func (m *mender) isUsed() bool { return m.rewritten > 0 || len(m.dropped) > 0 }

// mend completes the files that need it, or asks for the files that they need. It reports whether it has asked for any.
func (w *reflectionWalk) mend() (again bool, err error) {
	w.dropForeignTypes()
	var odd []*reflectedFile
	for _, name := range shown.SortedKeys(w.files) {
		if f := w.files[name]; w.isOdd(f) {
			if err := f.decode(); err != nil {
				return false, w.fail("decode "+shown.Clip(name), err)
			}
			odd = append(odd, f)
		}
	}
	if len(odd) == 0 {
		return false, nil
	}
	names, err := w.index()
	if err != nil {
		return false, err
	}
	for _, f := range odd {
		asked, err := w.askFor(f, names)
		if err != nil {
			return false, err
		}
		again = again || asked
	}
	if again {
		return true, nil
	}
	for _, f := range odd {
		if isIncomplete(f) {
			w.mender.incomplete++
		}
		f.isMended = true
		w.mender.rewritten++
		err := w.rewrite(f, names)
		if failed := (*Error)(nil); err != nil && !errors.As(err, &failed) {
			err = w.fail("complete "+shown.Clip(f.name), err)
		}
		w.mender.broken[f.name] = err
	}
	return false, nil
}

// dropForeignTypes drops copies of the well-known types in files of another name: the built-in ones are used, under which
// everybody else knows them.
func (w *reflectionWalk) dropForeignTypes() {
	for name, f := range w.files {
		if f.file.GetPackage() != "google.protobuf" || strings.HasPrefix(name, wellKnownFolder) {
			continue
		}
		isKnown := true
		symbolsOf(f.file, func(s symbol) {
			isKnown = isKnown && (s.parent != "" || wellKnownFile(s.name) != "")
		})
		if isKnown {
			delete(w.files, name)
			w.mender.dropped[name] = true
		}
	}
}

// wellKnownFile is the path of the built-in file that defines a well-known type; empty for other names.
func wellKnownFile(name string) string {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil || !strings.HasPrefix(d.ParentFile().Path(), wellKnownFolder) {
		return ""
	}
	return d.ParentFile().Path()
}

// isOdd reports whether a file is known to need what mend does.
func (w *reflectionWalk) isOdd(f *reflectedFile) bool {
	if f.isMended {
		return false
	}
	for _, path := range f.imports {
		if w.files[path] == nil {
			return true
		}
	}
	return f.file != nil && isIncomplete(f) // else the load before used it as it is
}

// isIncomplete reports whether a file is not what a compiler writes.
func isIncomplete(f *reflectedFile) bool {
	is, own := false, map[string]bool{}
	if len(f.imports) == 0 {
		symbolsOf(f.file, func(s symbol) { own["."+s.name] = true })
	}
	eachMessage(f.file, func(name string, m *descriptorpb.DescriptorProto) {
		if m.GetOptions().GetMapEntry() {
			is = is || !strings.HasSuffix(m.GetName(), entrySuffix)
			own["."+name] = true
		}
	})
	eachReference(f.file, func(_ string, ref *string) {
		is = is || !strings.HasPrefix(*ref, ".") || len(f.imports) == 0 && !own[*ref]
	})
	return is
}

// index are the files that define the messages and enums, by their full names. Of two that define one, the first by name
// counts.
func (w *reflectionWalk) index() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range shown.SortedKeys(w.files) {
		f := w.files[name]
		if err := f.decode(); err != nil {
			return nil, w.fail("decode "+shown.Clip(name), err)
		}
		symbolsOf(f.file, func(s symbol) {
			if _, isTaken := out[s.name]; !isTaken && (s.shape == "message" || s.shape == "enum") {
				out[s.name] = name
			}
		})
	}
	return out, nil
}

// candidates are the full names that a reference may mean, the first that exists counts.
func candidates(scope, ref string) []string {
	if full, isFull := strings.CutPrefix(ref, "."); isFull {
		return []string{full}
	}
	var out []string
	for scope != "" {
		out = append(out, scope+"."+ref)
		scope = scope[:max(0, strings.LastIndexByte(scope, '.'))]
	}
	return append(out, ref)
}

// find is the full name of what a reference means, and the file that defines it; empty if no file does.
func find(scope, ref string, names map[string]string) (full, file string) {
	for _, name := range candidates(scope, ref) {
		if path := names[name]; path != "" {
			return name, path
		}
		if path := wellKnownFile(name); path != "" {
			return name, path
		}
	}
	return "", ""
}

// askFor asks for the files of what a file uses and no file defines. It reports whether one came.
func (w *reflectionWalk) askFor(f *reflectedFile, names map[string]string) (found bool, err error) {
	entries := entriesOf(f.file)
	var wanted []string
	eachReference(f.file, func(scope string, ref *string) {
		if _, file := find(scope, *ref, names); file == "" && entries[ref] == "" {
			wanted = append(wanted, candidates(scope, *ref)...)
		}
	})
	before := len(w.files)
	for _, name := range wanted {
		if w.mender.asked[name] || len(w.mender.asked) >= maxMendQuestions || !protoreflect.FullName(name).IsValid() {
			continue
		}
		w.mender.asked[name] = true
		err := w.stream.symbols([]string{name}, func(_ string, got [][]byte, err error) error {
			if err == nil {
				_, err = w.keep(got)
			}
			if w.isFatal(err) {
				return w.fail("find "+shown.Clip(name), err)
			}
			return nil // the file that needs it says what is missing
		})
		if err != nil {
			return false, err
		}
	}
	return len(w.files) > before, nil
}

// rewrite gives a file the names that compilers write, and the imports that it needs. Imports that did not come and that it
// does not need are left out.
func (w *reflectionWalk) rewrite(f *reflectedFile, names map[string]string) error {
	entries := entriesOf(f.file)
	own := map[string]string{}
	eachMessage(f.file, func(name string, m *descriptorpb.DescriptorProto) {
		if !m.GetOptions().GetMapEntry() {
			own[name] = f.name
		}
	})
	needed := map[string]bool{}
	var lost []string
	eachReference(f.file, func(scope string, ref *string) {
		if entry := entries[ref]; entry != "" {
			*ref = "." + entry
			return
		}
		full, file := find(scope, *ref, own)
		if own[full] == "" {
			full, file = find(scope, *ref, names)
		}
		switch {
		case file == "":
			lost = append(lost, *ref)
		case file != f.name:
			needed[file] = true
			fallthrough
		default:
			*ref = "." + full
		}
	})
	renameEntries(f.file)
	markOptional(f.file)
	if len(lost) > 0 {
		slices.Sort(lost)
		return fmt.Errorf("no file that the server has defines %s", shown.ClipList(slices.Compact(lost)))
	}
	var imports []string
	at := make([]int32, len(f.imports)) // where the imports have gone
	for i, path := range f.imports {
		name := path
		if w.files[path] == nil {
			name = w.sentAs[path]
		}
		missing, isMissing := w.missing[path]
		switch {
		case w.files[name] != nil && slices.Contains(imports, name):
			at[i] = int32(slices.Index(imports, name))
		case w.files[name] != nil:
			at[i], imports = int32(len(imports)), append(imports, name)
		case isMissing && !missing.isRefused:
			return missing.err
		default:
			at[i] = -1
			if isMissing {
				w.warnings = append(w.warnings, Warning{f.name, fmt.Sprintf(
					"imports %s, which the server does not serve under that name; options that it defines are not read; --descriptors has them", shown.Clip(path))})
			}
		}
	}
	for _, name := range shown.SortedKeys(needed) {
		if !slices.Contains(imports, name) {
			imports = append(imports, name)
		}
		if w.files[name] == nil {
			w.addBuiltin(Builtin(name))
		}
	}
	f.imports, f.file.Dependency = imports, imports
	f.file.PublicDependency = moved(f.file.GetPublicDependency(), at)
	f.file.WeakDependency = moved(f.file.GetWeakDependency(), at)
	return nil
}

// moved are the indices of imports after they have gone elsewhere.
func moved(indices, at []int32) []int32 {
	var out []int32
	for _, i := range indices {
		if i >= 0 && int(i) < len(at) && at[i] >= 0 && !slices.Contains(out, at[i]) {
			out = append(out, at[i])
		}
	}
	return out
}

// entrySuffix ends the names of the messages that stand for the entries of a map.
const entrySuffix = "Entry"

// entryName is the name that compilers give the entries of a map field: those of price_by_day are PriceByDayEntry.
func entryName(field string) string {
	out := make([]byte, 0, len(field)+len(entrySuffix))
	isStart := true
	for i := range len(field) {
		c := field[i]
		switch {
		case c == '_':
			isStart = true
			continue
		case isStart && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		out, isStart = append(out, c), false
	}
	return string(out) + entrySuffix
}

// entryOf is the message inside m that stands for the entries of a map field; nil if the field is none.
func entryOf(m *descriptorpb.DescriptorProto, field *descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	if field.GetLabel() != descriptorpb.FieldDescriptorProto_LABEL_REPEATED || field.TypeName == nil {
		return nil
	}
	last := field.GetTypeName()[strings.LastIndexByte(field.GetTypeName(), '.')+1:]
	for _, nested := range m.GetNestedType() {
		if nested.GetOptions().GetMapEntry() && nested.GetName() == last &&
			(nested.GetName() == entryName(field.GetName()) || strings.EqualFold(last, field.GetName())) {
			return nested
		}
	}
	return nil
}

// entriesOf are the full names that compilers give the entries of the map fields in a file, by the references to them.
func entriesOf(f *descriptorpb.FileDescriptorProto) map[*string]string {
	out := map[*string]string{}
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		for _, field := range m.GetField() {
			if entryOf(m, field) != nil {
				out[field.TypeName] = name + "." + entryName(field.GetName())
			}
		}
	})
	return out
}

// renameEntries gives the entries of maps the names that entriesOf has for them. References are as they were rewritten.
func renameEntries(f *descriptorpb.FileDescriptorProto) {
	eachMessage(f, func(_ string, m *descriptorpb.DescriptorProto) {
		for _, nested := range m.GetNestedType() {
			if !nested.GetOptions().GetMapEntry() {
				continue
			}
			for _, field := range m.GetField() {
				if field.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED && strings.EqualFold(nested.GetName(), field.GetName()) {
					nested.Name = new(entryName(field.GetName()))
				}
			}
		}
	})
}

// markOptional marks the fields of proto3 that are alone in a oneof of their own name as optional, which is what the
// compiler makes of the keyword. The linker wants such oneofs last.
func markOptional(f *descriptorpb.FileDescriptorProto) {
	if f.GetSyntax() != "proto3" {
		return
	}
	eachMessage(f, func(_ string, m *descriptorpb.DescriptorProto) {
		for i := len(m.GetOneofDecl()) - 1; i >= 0; i-- {
			var members []*descriptorpb.FieldDescriptorProto
			for _, field := range m.GetField() {
				if field.OneofIndex != nil && int(field.GetOneofIndex()) == i {
					members = append(members, field)
				}
			}
			if len(members) != 1 || m.GetOneofDecl()[i].GetName() != "_"+members[0].GetName() {
				return
			}
			members[0].Proto3Optional = new(true)
		}
	})
}

// eachMessage visits all messages of a file with their full names, those inside others too.
func eachMessage(f *descriptorpb.FileDescriptorProto, visit func(name string, m *descriptorpb.DescriptorProto)) {
	var walk func(scope string, messages []*descriptorpb.DescriptorProto)
	walk = func(scope string, messages []*descriptorpb.DescriptorProto) {
		for _, m := range messages {
			name := within(scope, m.GetName())
			visit(name, m)
			walk(name, m.GetNestedType())
		}
	}
	walk(f.GetPackage(), f.GetMessageType())
}

// eachReference visits the name of every message and enum that a file uses, with the scope in which it is written.
func eachReference(f *descriptorpb.FileDescriptorProto, visit func(scope string, ref *string)) {
	fields := func(scope string, all []*descriptorpb.FieldDescriptorProto) {
		for _, field := range all {
			if field.TypeName != nil {
				visit(scope, field.TypeName)
			}
			if field.Extendee != nil {
				visit(scope, field.Extendee)
			}
		}
	}
	eachMessage(f, func(name string, m *descriptorpb.DescriptorProto) {
		fields(name, m.GetField())
		fields(name, m.GetExtension())
	})
	fields(f.GetPackage(), f.GetExtension())
	for _, s := range f.GetService() {
		scope := within(f.GetPackage(), s.GetName())
		for _, m := range s.GetMethod() {
			if m.InputType != nil && m.OutputType != nil {
				visit(scope, m.InputType)
				visit(scope, m.OutputType)
			}
		}
	}
}
