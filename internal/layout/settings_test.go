// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// settingsRecord has the settings that more than one file reads, by the reason for it.
const settingsRecord = "testdata/settings.json"

// TestASettingIsReadInOneFile: a setting is a field of the configuration and one file that reads it, so that adding one means two
// files. Those that more files read are on record, with the reason; the record may only shrink. A setting that is new to it belongs
// to the constructor of one part, which takes the message.
func TestASettingIsReadInOneFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(settingsRecord)
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Reason   string
		Settings map[string]int
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&groups); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for _, group := range groups {
		for setting, files := range group.Settings {
			if group.Reason == "" || allowed[setting] != 0 {
				t.Errorf("%s: %s has no reason, or two", settingsRecord, setting)
			}
			allowed[setting] = files
		}
	}
	uses := settingUses(t)
	if len(uses) < 300 || !slices.Contains(uses["Limits.MaxQueuedCalls"], "internal/policy/slots.go") {
		t.Fatalf("%d settings, max_queued_calls in %q: the test does not see the code", len(uses), uses["Limits.MaxQueuedCalls"])
	}
	for _, fault := range settingFaults(uses, allowed) {
		t.Error(fault)
	}
}

// settingFaults compares the files that read each setting with how many are on record.
func settingFaults(uses map[string][]string, allowed map[string]int) []string {
	var out []string
	for setting, files := range uses {
		most, isKnown := allowed[setting]
		switch {
		case len(files) > max(most, 1):
			out = append(out, setting+" is read in "+strings.Join(files, ", ")+": let one of them take the message, or ask it")
		case isKnown && len(files) < most:
			out = append(out, setting+" is read in fewer files than "+settingsRecord+" has: lower it there, or take it out at 1")
		}
	}
	for setting := range allowed {
		if _, is := uses[setting]; !is {
			out = append(out, setting+" is in "+settingsRecord+" and no setting")
		}
	}
	slices.Sort(out)
	return out
}

// TestSettingFaults: another file is a fault, and so is a record that allows more than there is.
func TestSettingFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files   []string
		allowed map[string]int
		faults  int
	}{
		"none":             {nil, nil, 0},
		"one":              {[]string{"a.go"}, nil, 0},
		"two":              {[]string{"a.go", "b.go"}, nil, 1},
		"two on record":    {[]string{"a.go", "b.go"}, map[string]int{"Log.Level": 2}, 0},
		"one more":         {[]string{"a.go", "b.go", "c.go"}, map[string]int{"Log.Level": 2}, 1},
		"fewer, unwritten": {[]string{"a.go"}, map[string]int{"Log.Level": 2}, 1},
		"no such setting":  {nil, map[string]int{"Log.Lever": 2}, 1},
	} {
		if got := settingFaults(map[string][]string{"Log.Level": tt.files}, tt.allowed); len(got) != tt.faults {
			t.Errorf("%s: %q, want %d", name, got, tt.faults)
		}
	}
}

// settingUses are the files of the product that select each setting, by the names of its message and its field in Go. A message that
// is made, and what an interface of getters reads, are not seen.
func settingUses(t *testing.T) map[string][]string {
	t.Helper()
	uses := map[string][]string{}
	addSettings((*configv1.Config)(nil).ProtoReflect().Descriptor(), uses)
	kits := kitsOf(goFiles(t))
	for _, pkg := range typed(t) {
		if kits[pkg.dir] {
			continue
		}
		made := madeFields(pkg)
		fields := map[*types.Package]map[types.Object]string{}
		for ident, object := range pkg.info.Uses {
			if object.Pkg() == nil || object.Pkg().Path() != module+"gen/outrigger/config/v1" {
				continue
			}
			if fields[object.Pkg()] == nil {
				fields[object.Pkg()] = fieldsOf(object.Pkg())
			}
			name := filepath.Base(pkg.set.Position(ident.Pos()).Filename)
			setting, file := fields[object.Pkg()][object], path.Join(pkg.dir, name)
			if files, is := uses[setting]; is && !made[ident] && !ast.IsGenerated(pkg.files[name]) && !slices.Contains(files, file) {
				uses[setting] = append(files, file)
			}
		}
	}
	for _, files := range uses {
		slices.Sort(files)
	}
	return uses
}

// madeFields are the names of fields in the literals of a package.
func madeFields(pkg typedPackage) map[*ast.Ident]bool {
	out := map[*ast.Ident]bool{}
	for _, file := range pkg.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if pair, isPair := n.(*ast.KeyValueExpr); isPair {
				if key, isName := pair.Key.(*ast.Ident); isName {
					out[key] = true
				}
			}
			return true
		})
	}
	return out
}

// addSettings adds the settings of a message and of those below it. A message that is there once is no setting: its fields are.
func addSettings(md protoreflect.MessageDescriptor, to map[string][]string) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		part := fd.Message()
		if fd.IsMap() {
			part = fd.MapValue().Message()
		}
		isPart := part != nil && part.ParentFile().Package() == md.ParentFile().Package()
		if !isPart || fd.IsList() || fd.IsMap() {
			var name strings.Builder
			for word := range strings.SplitSeq(string(fd.Name()), "_") {
				name.WriteString(strings.ToUpper(word[:1]) + word[1:])
			}
			to[string(md.Name())+"."+name.String()] = nil
		}
		if isPart {
			addSettings(part, to)
		}
	}
}

// fieldsOf are the fields and getters of the messages of a generated package, each with the names of its message and its field.
func fieldsOf(pkg *types.Package) map[types.Object]string {
	out := map[types.Object]string{}
	for _, name := range pkg.Scope().Names() {
		named, isNamed := pkg.Scope().Lookup(name).Type().(*types.Named)
		if !isNamed {
			continue
		}
		message, isStruct := named.Underlying().(*types.Struct)
		if !isStruct {
			continue
		}
		for field := range message.Fields() {
			out[field] = name + "." + field.Name()
		}
		for method := range named.Methods() {
			if field, isGetter := strings.CutPrefix(method.Name(), "Get"); isGetter {
				out[method] = name + "." + field
			}
		}
	}
	return out
}
