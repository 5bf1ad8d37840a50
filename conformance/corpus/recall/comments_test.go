// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The descriptors that generated Go code links have no comments. But protoc-gen-go copies the comments of the .proto files
// to its code, so they are read from there: with them, the descriptors are those that a build of the .proto files has.

// goComments are the comments of a Go package: of types and methods by their names, of fields by the name in the .proto file.
type goComments struct {
	types, methods, fields map[string]string
}

// commentReader reads the comments of Go packages, each one once.
type commentReader struct {
	dirs func() (map[string]string, error)
	mu   sync.Mutex
	read map[string]goComments
}

func newCommentReader() *commentReader {
	return &commentReader{read: map[string]goComments{}, dirs: sync.OnceValues(func() (map[string]string, error) {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", ".").Output()
		dirs := map[string]string{}
		for line := range strings.Lines(string(out)) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			dirs[path] = dir
		}
		return dirs, err
	})}
}

func (r *commentReader) of(t testing.TB, path string) goComments {
	t.Helper()
	dirs, err := r.dirs()
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.read[path]; ok {
		return c
	}
	c := goComments{map[string]string{}, map[string]string{}, map[string]string{}}
	if dir := dirs[path]; dir != "" {
		c.readDir(t, dir)
	}
	r.read[path] = c
	return c
}

func (c goComments) readDir(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pb.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, s := range decl.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok {
					c.readType(decl, spec)
				}
			}
		}
	}
}

func (c goComments) readType(decl *ast.GenDecl, spec *ast.TypeSpec) {
	name := spec.Name.Name
	switch typ := spec.Type.(type) {
	case *ast.InterfaceType:
		service, ok := strings.CutSuffix(name, "Client")
		if !ok {
			return
		}
		for _, m := range typ.Methods.List {
			if len(m.Names) == 1 {
				c.methods[service+"."+m.Names[0].Name] = m.Doc.Text()
			}
		}
	case *ast.StructType:
		c.types[name] = decl.Doc.Text() + spec.Doc.Text()
		for _, f := range typ.Fields.List {
			field := fieldOfTag(f.Tag)
			if field == "" {
				continue
			}
			comment := f.Doc.Text() + f.Comment.Text()
			c.fields[name+"."+field] = comment
			if of, _, isMember := strings.Cut(name, "_"); isMember { // a member of a oneof has its own type
				c.fields[of+"."+field] += comment
			}
		}
	}
}

// fieldOfTag is the name that a field has in the .proto file.
func fieldOfTag(tag *ast.BasicLit) string {
	if tag == nil {
		return ""
	}
	text, err := strconv.Unquote(tag.Value)
	if err != nil {
		return ""
	}
	for part := range strings.SplitSeq(reflect.StructTag(text).Get("protobuf"), ",") {
		if name, ok := strings.CutPrefix(part, "name="); ok {
			return name
		}
	}
	return ""
}

// comment adds the comments of the generated code to a file.
func (r *commentReader) comment(t testing.TB, file *descriptorpb.FileDescriptorProto) {
	t.Helper()
	path, _, _ := strings.Cut(file.GetOptions().GetGoPackage(), ";")
	c := r.of(t, path)
	info := &descriptorpb.SourceCodeInfo{}
	add := func(text string, at ...int32) {
		if text != "" {
			info.Location = append(info.Location, &descriptorpb.SourceCodeInfo_Location{Path: slices.Clone(at), Span: []int32{0, 0, 0}, LeadingComments: proto.String(text)})
		}
	}
	for i, s := range file.GetService() {
		for j, m := range s.GetMethod() {
			add(c.methods[s.GetName()+"."+m.GetName()], 6, int32(i), 2, int32(j))
		}
	}
	for i, m := range file.GetMessageType() {
		add(c.types[m.GetName()], 4, int32(i))
		for j, f := range m.GetField() {
			add(c.fields[m.GetName()+"."+f.GetName()], 4, int32(i), 2, int32(j))
		}
	}
	file.SourceCodeInfo = info
}

// TestCommentsAreFound: without them, the figures of descriptors with comments would be those of descriptors without.
func TestCommentsAreFound(t *testing.T) {
	t.Parallel()
	comments := newCommentReader()
	for name, packages := range apis() {
		said, tools := 0, liveOf(t, packages, comments).Current().Tools()
		for _, tool := range tools {
			if !tool.Undescribed {
				said++
			}
		}
		t.Logf("%s: %d of %d tools have a comment", name, said, len(tools))
		if said < len(tools)*3/4 {
			t.Errorf("%s: %d of %d tools have a comment", name, said, len(tools))
		}
	}
}
