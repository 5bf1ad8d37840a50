// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

const configPackage = module + "gen/outrigger/config/v1"

// settingsUses are the files of the product that read each setting, by message and field.
func settingUses(t *testing.T) map[string][]string {
	t.Helper()
	uses := map[string][]string{}
	settingsOf((*configv1.Config)(nil).ProtoReflect().Descriptor(), uses)
	for _, pkg := range typed(t) {
		for ident, object := range pkg.info.Uses {
			if object.Pkg() == nil || object.Pkg().Path() != configPackage {
				continue
			}
			at := pkg.set.Position(ident.Pos()).Filename
			name := filepath.Base(at)
			if ast.IsGenerated(pkg.files[name]) {
				continue
			}
			setting := settingNamed(object)
			files, is := uses[setting]
			if file := path.Join(pkg.dir, name); is && !slices.Contains(files, file) {
				uses[setting] = append(files, file)
			}
		}
	}
	return uses
}

// settingsOf adds the settings of a message and of those below it.
func settingsOf(md protoreflect.MessageDescriptor, to map[string][]string) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		inner := fd.Message()
		if fd.IsMap() {
			inner = fd.MapValue().Message()
		}
		isPart := inner != nil && inner.ParentFile().Package() == md.ParentFile().Package()
		if !isPart || fd.IsList() || fd.IsMap() {
			to[string(md.Name())+"."+goName(fd)] = nil
		}
		if isPart {
			settingsOf(inner, to)
		}
	}
}

func goName(fd protoreflect.FieldDescriptor) string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(fd.Name()), "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func settingNamed(object types.Object) string {
	fn, ok := object.(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return ""
	}
	recv := fn.Signature().Recv().Type()
	if p, ok := recv.(*types.Pointer); ok {
		recv = p.Elem()
	}
	named, ok := recv.(*types.Named)
	field, is := strings.CutPrefix(fn.Name(), "Get")
	if !ok || !is {
		return ""
	}
	return named.Obj().Name() + "." + field
}

func TestCount(t *testing.T) {
	uses := settingUses(t)
	n := map[int]int{}
	var out []string
	for s, files := range uses {
		n[len(files)]++
		slices.Sort(files)
		if len(files) != 1 {
			out = append(out, fmt.Sprintf("%d %s %v", len(files), s, files))
		}
	}
	slices.Sort(out)
	t.Log(len(uses), n, "\n"+strings.Join(out, "\n"))
}
