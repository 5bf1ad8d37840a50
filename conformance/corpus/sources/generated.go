// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// rawSuffix ends the name of the constant in which protoc-gen-go keeps a file's descriptor.
const rawSuffix = "_rawDesc"

// Generated reads the descriptors out of generated Go files that cannot be imported, because their folder is internal to
// another module. The key is the path of the .proto file.
func Generated(paths ...string) (map[string]*descriptorpb.FileDescriptorProto, error) {
	out := map[string]*descriptorpb.FileDescriptorProto{}
	for _, path := range paths {
		raw, err := rawDescriptor(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[file.GetName()] = file
	}
	return out, nil
}

func rawDescriptor(path string) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			named, ok := spec.(*ast.ValueSpec)
			if ok && len(named.Names) == 1 && len(named.Values) == 1 && strings.HasSuffix(named.Names[0].Name, rawSuffix) {
				var text strings.Builder
				err := appendLiterals(&text, named.Values[0])
				return []byte(text.String()), err
			}
		}
	}
	return nil, fmt.Errorf("no constant ends in %s", rawSuffix)
}

// appendLiterals evaluates a sum of string literals.
func appendLiterals(text *strings.Builder, e ast.Expr) error {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if err := appendLiterals(text, e.X); err != nil {
			return err
		}
		return appendLiterals(text, e.Y)
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		text.WriteString(s)
		return err
	default:
		return fmt.Errorf("a descriptor is made of literals, found %T", e)
	}
}
