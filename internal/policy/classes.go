// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Class says who sees the fields of a class in results, and what others get.
type Class struct {
	// Path is the place of the class in the policy, for faults.
	Path, Name              string
	Callers, Groups, Scopes []string
	// Otherwise is "hide" if it is empty, "mask", "hash" or "deny". Mask is "stars" if it is empty, or "last_four".
	Otherwise, Mask string
	// Recorded is set if records keep the values.
	Recorded bool
}

// FieldName gives a class to a field by its full name.
type FieldName struct {
	// Path is the place of the entry in the policy, for faults.
	Path  string
	Name  protoreflect.FullName
	Class string
	// Backend is the name of one of several backends, of whose tools alone this is said; empty for all.
	Backend string
}

// classes are the classes of a set.
type classes struct {
	list   []Class
	at     map[string]int
	fields map[protoreflect.FullName][]FieldName
	named  []FieldName
}

// Classify gives the set its classes, once, before it is used. The faults are what is wrong with them, and with the classes of rules.
func (s *Set) Classify(list []Class, fields []FieldName) []Fault {
	c := classes{list: list, at: map[string]int{}, fields: map[protoreflect.FullName][]FieldName{}, named: fields}
	var faults []Fault
	fault := func(path, format string, args ...any) {
		faults = append(faults, Fault{Index: -1, Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for i, class := range list {
		if !ruleName.MatchString(class.Name) {
			fault(class.Path+".name", "must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
		} else if first, ok := c.at[class.Name]; ok {
			fault(class.Path+".name", "is the name of %s too", list[first].Path)
			continue
		}
		if treatmentOf(cmp.Or(class.Otherwise, hideFields), class.Mask).Action == transcode.Show {
			fault(class.Path+".otherwise", "must be hide, mask, hash or deny")
		}
		c.at[class.Name] = i
	}
	for _, f := range fields {
		if _, ok := c.at[f.Class]; !ok {
			fault(f.Path, "there is no class %s: name it in classes, with who sees it", f.Class)
		}
		if f.Name.Parent().Parent() == "google.protobuf" {
			fault(f.Path, "%s is a part of a well-known type: give a class to the field that holds it", f.Name)
		}
		c.fields[f.Name] = append(c.fields[f.Name], f)
	}
	for _, r := range s.rules {
		for i, name := range r.Classes {
			if _, ok := c.at[name]; !ok {
				faults = append(faults, Fault{Index: r.index, Field: fmt.Sprintf("classes[%d]", i), Message: "there is no class " + name + ": name it in classes, with who sees it"})
			}
		}
	}
	s.classes = c
	s.views = s.views || len(list)+len(fields) > 0
	s.unnamed.Store(len(list)+len(fields) > 0) // until the tools are known
	return faults
}

// said is what the policy says about classes, wherever it says it.
func (c *classes) said() classes {
	out := classes{list: slices.Clone(c.list), named: slices.Clone(c.named)}
	for i := range out.list {
		out.list[i].Path, out.list[i].Recorded = "", false // which changes no result
	}
	for i := range out.named {
		out.named[i].Path = ""
	}
	return out
}

// HasViews reports whether callers may see less of a result than there is.
func (s *Set) HasViews() bool { return s != nil && (s.views || s.unnamed.Load()) }

// Classes returns the classes in order.
func (s *Set) Classes() []Class {
	if s == nil {
		return nil
	}
	return s.classes.list
}

// sees reports whether a caller sees fields of the class.
func (c *Class) sees(who *identity.Identity) bool {
	if who == nil {
		return false
	}
	facts := who.Facts()
	if (facts.Source == identity.SourceTokens || facts.Entry) && slices.Contains(c.Callers, who.Name()) {
		return true
	}
	in := func(name string) func(string) bool { return func(other string) bool { return other == name } }
	for _, group := range c.Groups {
		if !facts.GroupsUnknown && slices.ContainsFunc(facts.Groups, in(group)) {
			return true
		}
	}
	return slices.ContainsFunc(c.Scopes, func(scope string) bool { return slices.Contains(facts.Scopes, scope) })
}

// seenBy has '1' for each class that a caller sees, and '0' for others.
func (c *classes) seenBy(who *identity.Identity) string {
	out := make([]byte, len(c.list))
	for i := range c.list {
		out[i] = '0'
		if c.list[i].sees(who) {
			out[i] = '1'
		}
	}
	return string(out)
}

// of returns the classes of a field of a backend's, by its option and by its name.
func (c *classes) of(fd protoreflect.FieldDescriptor, backend string) []string {
	var out []string
	if class := redact.ClassOf(fd); class != "" {
		out = append(out, class)
	}
	for _, f := range c.fields[fd.FullName()] {
		if (f.Backend == "" || f.Backend == backend) && !slices.Contains(out, f.Class) {
			out = append(out, f.Class)
		}
	}
	return out
}

// The effects of rules about results, beside [Deny].
const (
	hideFields = "hide"
	maskFields = "mask"
	hashFields = "hash"
	lastFour   = "last_four"
)

// treatmentOf is a treatment in the words of the configuration; Show for no such word.
func treatmentOf(action, mask string) transcode.Treatment {
	t := transcode.Treatment{Action: map[string]transcode.Action{
		hideFields: transcode.Hide, maskFields: transcode.Mask, hashFields: transcode.Hash, string(Deny): transcode.Deny,
	}[action]}
	if t.Action == transcode.Mask && mask == lastFour {
		t.Style = transcode.MaskLastFour
	}
	return t
}

// otherwise is what callers get who do not see the class. A class that the policy does not name is hidden from all.
func (c *classes) otherwise(class string) transcode.Treatment {
	i, ok := c.at[class]
	if !ok {
		return transcode.Treatment{Action: transcode.Hide}
	}
	return treatmentOf(cmp.Or(c.list[i].Otherwise, hideFields), c.list[i].Mask)
}

// stricter is the one of two treatments that shows less.
func stricter(a, b transcode.Treatment) transcode.Treatment {
	if b.Action > a.Action || a.Action == b.Action && b.Style < a.Style {
		return b
	}
	return a
}

// treatment is what a rule about results does with its fields.
func (r *compiled) treatment() transcode.Treatment { return treatmentOf(string(r.Effect), r.Mask) }

// isWhole reports whether the rule denies results as a whole.
func (r *compiled) isWhole() bool { return r.Effect == Deny && len(r.Fields)+len(r.Classes) == 0 }

// about reports whether a rule about results is about a field with these classes.
func (r *compiled) about(name string, classes []string) bool {
	if len(r.Fields) > 0 && !glob.MatchAny(r.Fields, name) {
		return false
	}
	if len(r.Classes) == 0 {
		return len(r.Fields) > 0 || len(classes) > 0
	}
	return slices.ContainsFunc(r.Classes, func(class string) bool { return slices.Contains(classes, class) })
}

// field is the variable "field" of rules about results.
type field struct {
	opaque
	class, name ref.Val
}

const fieldName = "#field"

func newField(name, class string) *field {
	f := &field{class: types.String(class), name: types.String(name)}
	f.opaque = opaque{kind: types.NewObjectType(fieldName), self: f}
	return f
}

func fieldVariable() cel.EnvOption { return cel.Variable(varField, cel.ObjectType(fieldName)) }

// fieldObject is the type of the variable field.
func fieldObject() *object {
	text := func(get func(f *field) ref.Val) *types.FieldType {
		return getter(types.StringType, func(f *field) (ref.Val, error) { return get(f), nil })
	}
	return &object{fields: map[string]*types.FieldType{
		"class": text(func(f *field) ref.Val { return f.class }),
		"name":  text(func(f *field) ref.Val { return f.name }),
	}}
}

// classified is a field of the tools that has classes, or that a rule is about.
type classified struct {
	name    string
	fd      protoreflect.FieldDescriptor // nil for a path of a native tool
	classes []string
}

// fitClasses compares the classes with the fields of a catalog's files.
func (s *Set) fitClasses(cat *catalog.Catalog) []Fault {
	found, known := s.fieldsOf(cat)
	var faults []Fault
	fault := func(path, format string, args ...any) {
		faults = append(faults, Fault{Index: -1, Path: path, Message: fmt.Sprintf(format, args...)})
	}
	has, unnamed := map[string]bool{}, map[string]string{}
	for _, f := range found {
		for _, class := range f.classes {
			has[class] = true
			if _, ok := s.classes.at[class]; !ok && unnamed[class] == "" {
				unnamed[class] = f.name
			}
		}
	}
	s.unnamed.Store(len(unnamed) > 0)
	for _, class := range slices.Sorted(maps.Keys(unnamed)) {
		fault("classes", "field %s has the class %s, which is not named here, so that no caller sees it: add it, with who sees it", unnamed[class], class)
	}
	for i := range s.classes.list {
		class := &s.classes.list[i]
		if !has[class.Name] {
			fault(class.Path+".name", "no field has the class %s: give it to one by (outrigger.v1.field).visible_to, fields or tools[].visible_to, or remove it", class.Name)
		}
		for _, f := range found {
			if why := misfit(s.classes.otherwise(class.Name), f.fd); why != "" && slices.Contains(f.classes, class.Name) {
				fault(class.Path+".otherwise", "%s does not fit field %s: use hide, or a class of its kind", why, f.name)
				break
			}
		}
	}
	for _, f := range s.classes.named {
		if !known(f) {
			fault(f.Path, "no message has the field %s: correct its name", f.Name)
		}
	}
	for _, r := range s.rules {
		if r.OnResult {
			faults = append(faults, r.fitFields(found, s.allFields(cat))...)
		}
	}
	return faults
}

// fitFields compares a rule about results with the fields.
func (r *compiled) fitFields(found []classified, all func(func(protoreflect.FieldDescriptor) bool)) []Fault {
	var faults []Fault
	fault := func(member, format string, args ...any) {
		faults = append(faults, Fault{Index: r.index, Field: member, OnResult: true, Message: fmt.Sprintf(format, args...)})
	}
	for i, pattern := range r.Fields {
		isFound := false
		all(func(fd protoreflect.FieldDescriptor) bool {
			isFound = glob.Match(pattern, string(fd.FullName()))
			if why := misfit(r.treatment(), fd); isFound && why != "" && !strings.Contains(pattern, glob.Anything) {
				fault("effect", "%s does not fit field %s: use hide", why, fd.FullName())
			}
			return !isFound
		})
		if !isFound {
			fault(fmt.Sprintf("fields[%d]", i), "no message has a field that matches %s: correct it", pattern)
		}
	}
	for _, f := range found {
		if why := misfit(r.treatment(), f.fd); why != "" && len(r.Classes) > 0 && r.about(f.name, f.classes) {
			fault("effect", "%s does not fit field %s: use hide, or another class", why, f.name)
			break
		}
	}
	return faults
}

// misfit says what about a treatment does not fit the type of a field; empty where all does.
func misfit(t transcode.Treatment, fd protoreflect.FieldDescriptor) string {
	if fd == nil {
		return ""
	}
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	kind := fd.Kind()
	switch {
	case t.Action == transcode.Hash && kind != protoreflect.StringKind && kind != protoreflect.BytesKind:
		return "hash"
	case t.Action == transcode.Mask && t.Style == transcode.MaskLastFour && kind != protoreflect.StringKind:
		return "mask last_four"
	}
	return ""
}

// allFields visits the fields of all files of a catalog.
func (s *Set) allFields(cat *catalog.Catalog) func(func(protoreflect.FieldDescriptor) bool) {
	return func(yield func(protoreflect.FieldDescriptor) bool) {
		for _, path := range cat.Paths() {
			file, err := cat.Files().FindFileByPath(path)
			if err == nil && !(eachExtension(file.Extensions(), yield) && eachField(file.Messages(), yield)) {
				return
			}
		}
	}
}

func eachField(mds protoreflect.MessageDescriptors, yield func(protoreflect.FieldDescriptor) bool) bool {
	for i := range mds.Len() {
		md := mds.Get(i)
		for j := range md.Fields().Len() {
			if !yield(md.Fields().Get(j)) {
				return false
			}
		}
		if !eachExtension(md.Extensions(), yield) || !eachField(md.Messages(), yield) {
			return false
		}
	}
	return true
}

func eachExtension(eds protoreflect.ExtensionDescriptors, yield func(protoreflect.FieldDescriptor) bool) bool {
	for i := range eds.Len() {
		if !yield(eds.Get(i)) {
			return false
		}
	}
	return true
}

// fieldsOf returns the fields that have classes, and tells of others whether they exist.
func (s *Set) fieldsOf(cat *catalog.Catalog) (found []classified, known func(FieldName) bool) {
	exist := map[protoreflect.FullName]bool{}
	backends := map[string]bool{}
	for _, t := range cat.All() {
		backends[t.Method.Backend] = true
		paths := classPaths(t)
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			found = append(found, classified{name: path + " of tool " + t.Name, fd: fieldAt(rootOf(t), path), classes: paths[path]})
		}
	}
	for fd := range s.allFields(cat) {
		exist[fd.FullName()] = true
		var all []string
		for backend := range backends {
			for _, class := range s.classes.of(fd, backend) {
				if !slices.Contains(all, class) {
					all = append(all, class)
				}
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			found = append(found, classified{name: string(fd.FullName()), fd: fd, classes: all})
		}
	}
	return found, func(f FieldName) bool { return exist[f.Name] }
}

// classPaths are the classes of a tool's fields by path: those of the overlay, also for a second name of the RPC, and those of a
// native tool's schema.
func classPaths(t *catalog.Tool) map[string][]string {
	var out map[string][]string
	add := func(path, class string) {
		if out == nil {
			out = map[string][]string{}
		}
		if !slices.Contains(out[path], class) {
			out[path] = append(out[path], class)
		}
	}
	for of := t; of != nil; of = of.Base {
		for path, class := range of.Classes {
			add(path, class)
		}
	}
	if t.Native && t.HasOutput() {
		schemaClasses(t.Output.Canonical(), add)
	}
	return out
}

// FieldsOf returns the names of the fields of a catalog that have a class, sorted.
func (s *Set) FieldsOf(class string, cat *catalog.Catalog) []string {
	found, _ := s.fieldsOf(cat)
	out := []string{}
	for _, f := range found {
		if slices.Contains(f.classes, class) {
			out = append(out, f.name)
		}
	}
	slices.Sort(out)
	return out
}

// NeverMatches says why a rule about results, by its place in the list, can never have an effect; empty where it can.
func (s *Set) NeverMatches(rule int, cat *catalog.Catalog) string {
	r := s.rules[rule]
	if !r.OnResult || r.isWhole() {
		return ""
	}
	hasTool := false
	for _, t := range cat.All() {
		if t.Hidden || !r.matches(t) {
			continue
		}
		hasTool = true
		if s.canMatch(r, t) {
			return ""
		}
	}
	if !hasTool {
		return "" // which is said of every rule
	}
	return "can never match: no result of its tools has such a field"
}

// canMatch reports whether a rule is about a field that the results of a tool can have.
func (s *Set) canMatch(r *compiled, t *catalog.Tool) bool {
	of := s.sightOf(t)
	for _, path := range of.order {
		if r.about(path, of.paths[path]) {
			return true
		}
	}
	found := false
	eachBelow(rootOf(t), func(fd protoreflect.FieldDescriptor) bool {
		named := append(s.classes.of(fd, of.backend), of.named[fd.FullName()]...)
		found = r.about(string(fd.FullName()), named) || fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Any"
		return !found
	})
	return found
}

// eachBelow visits the fields of a message and of those in it, each type once.
func eachBelow(root protoreflect.MessageDescriptor, visit func(protoreflect.FieldDescriptor) bool) {
	seen := map[protoreflect.FullName]bool{}
	for queue := []protoreflect.MessageDescriptor{root}; len(queue) > 0; queue = queue[1:] {
		md := queue[0]
		if md == nil || seen[md.FullName()] {
			continue
		}
		seen[md.FullName()] = true
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if !visit(fd) {
				return
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			queue = append(queue, fd.Message())
		}
	}
}
