// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// Origin is a module, or a family of them, whose messages are read from files because generated code does not register
// them: it cannot be imported, or registers elsewhere.
type Origin struct {
	// Name tells it in reports.
	Name string
	// Roots are where files are looked for.
	Roots []ModuleRoot
	// Files says which .proto files to take, by import path: a pattern of package path, or a folder followed by "/...".
	Files []string
	// Module and Generated name generated Go files to read descriptors from, by patterns within the one module.
	Module    string
	Generated []string
}

// ModuleRoot is a folder of a module from which .proto files are imported.
type ModuleRoot struct {
	// Module is the path of the module, Below the folder within it, Prefix what import paths begin with.
	Module, Below, Prefix string
}

// Modules are the origins that the corpus has. Kubernetes and etcd generate code that keeps its descriptors to itself or
// with gogo; grpc-gateway's examples and protobuf's test messages are internal to their modules.
func Modules() []Origin {
	const etcd, grpcGateway = "go.etcd.io/etcd/api/v3", "github.com/grpc-ecosystem/grpc-gateway/v2"
	return []Origin{
		{
			Name:  "k8s.io/api",
			Roots: []ModuleRoot{{Module: "k8s.io/api", Prefix: "k8s.io/api"}, {Module: "k8s.io/apimachinery", Prefix: "k8s.io/apimachinery"}},
			Files: []string{"k8s.io/api/..."},
		},
		{
			Name: "etcd",
			Roots: []ModuleRoot{
				{Module: etcd, Prefix: "etcd/api"},
				{Module: etcd, Below: "etcdserverpb"}, // its files import one another by their bare names
				{Module: "github.com/gogo/protobuf"}, {Module: grpcGateway},
			},
			Files: []string{"etcd/api/authpb/...", "etcd/api/membershippb/...", "etcd/api/versionpb/...", "etcd/api/mvccpb/...", "*.proto"},
		},
		{
			Name:  "grpc-gateway examples",
			Roots: []ModuleRoot{{Module: grpcGateway}},
			Files: []string{"examples/internal/proto/...", "runtime/internal/examplepb/*.proto"},
		},
		{
			Name:   "protobuf test messages",
			Module: "google.golang.org/protobuf",
			Generated: []string{
				"internal/testprotos/conformance/test_messages_*.pb.go", "internal/testprotos/conformance/editions/*.pb.go",
				"internal/testprotos/conformance/editionsmigration/*.pb.go",
				"internal/testprotos/test/*.pb.go", "internal/testprotos/test3/*.pb.go", "internal/testprotos/testeditions/*.pb.go",
				"internal/testprotos/textpb2/*.pb.go", "internal/testprotos/textpb3/*.pb.go", "internal/testprotos/textpbeditions/*.pb.go",
				"internal/testprotos/enums/*.pb.go", "internal/testprotos/required/*.pb.go",
				"internal/testprotos/news/*.pb.go", "internal/testprotos/order/*.pb.go",
			},
		},
	}
}

// Load reads an origin. The go command says where its modules are; they have to be downloaded.
func (o Origin) Load(ctx context.Context) (*Set, error) {
	var roots []Root
	for _, r := range o.Roots {
		folder, err := moduleFolder(ctx, r.Module)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		roots = append(roots, Root{Prefix: r.Prefix, Folder: filepath.Join(folder, r.Below)})
	}
	var paths []string
	for _, pattern := range o.Files {
		found, err := matching(roots, pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		paths = append(paths, found...)
	}
	ready, err := o.generated(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	paths = append(paths, sortedKeys(ready)...)
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no files", o.Name)
	}
	set, err := Parse(ctx, roots, ready, paths...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	return set, nil
}

func (o Origin) generated(ctx context.Context) (map[string]*descriptorpb.FileDescriptorProto, error) {
	if o.Module == "" {
		return nil, nil
	}
	folder, err := moduleFolder(ctx, o.Module)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, pattern := range o.Generated {
		found, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return nil, errors.Join(fmt.Errorf("no file is %s", pattern), err)
		}
		files = append(files, found...)
	}
	return Generated(files...)
}

// matching lists the .proto files of a pattern as import paths.
func matching(roots []Root, pattern string) ([]string, error) {
	folder, deep := strings.CutSuffix(pattern, "/...")
	if !deep {
		folder = path.Dir(pattern)
	}
	var out []string
	for _, root := range roots {
		start, ok := root.path(folder + "/")
		if !ok || !deep && folder == "." && root.Prefix != "" {
			continue
		}
		err := filepath.WalkDir(start, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(file) != ".proto" {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			rel, err := filepath.Rel(root.Folder, file)
			if err != nil {
				return err
			}
			imported := path.Join(root.Prefix, filepath.ToSlash(rel))
			fits, err := path.Match(pattern, imported)
			if fits || deep {
				out = append(out, imported)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return out, nil
}

func moduleFolder(ctx context.Context, module string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module) //nolint:gosec // modules are named in Modules
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("where is %s: %w: %s", module, err, strings.TrimSpace(stderr.String()))
	}
	folder := strings.TrimSpace(stdout.String())
	if folder == "" {
		return "", fmt.Errorf("%s is not downloaded: run `go mod download %s`", module, module)
	}
	return folder, nil
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
