// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	// annotationsPage has the how-to under this heading.
	annotationsPage    = "docs/native-backends.md"
	annotationsHeading = "### Annotations in your own `.proto` files"
	// maxOptionBytes is what the page says that the options add to a descriptor set with comments.
	maxOptionBytes = 16 << 10
)

// TestAnnotations does what the page says, block by block, in a folder that has a checkout of Outrigger and no other file:
// files are written, commands run, and what they print is compared. The Go program links the façade beside its own code.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	compilers := os.Getenv("OUTRIGGER_COMPILERS")
	if compilers == "" {
		t.Skip("`make annotations-test` installs buf and protoc, and runs this")
	}
	checkout, err := filepath.Abs(root())
	if err != nil {
		t.Fatal(err)
	}
	reader := newcomer(t, checkout, compilers)
	ran, compared := 0, 0
	blocks := readBlocks(t, annotationsPage, annotationsHeading)
	for i, b := range blocks {
		name, _, _ := strings.Cut(strings.TrimPrefix(b.text, "# "), "\n")
		switch {
		case b.kind == "proto":
			reader.write("proto/shop/v1/orders.proto", b.text)
		case b.kind == "yaml":
			reader.write(name, b.text)
		case b.kind == "sh":
			ran++
			got := reader.run(b.text)
			if strings.Contains(b.text, "api.binpb") {
				addsLittle(t, filepath.Join(reader.dir, "api.binpb"))
			}
			if i+1 < len(blocks) && blocks[i+1].kind == "text" {
				compared++
				if diff := cmp.Diff(blocks[i+1].text, strings.TrimSpace(got)); diff != "" {
					t.Errorf("%s\nprints something else than the page says (-page +printed):\n%s", b.text, diff)
				}
			}
		}
	}
	if ran < 5 || compared < 3 {
		t.Errorf("ran %d commands and compared %d answers, the page has more: is a fence misspelt?", ran, compared)
	}
	reader.run("./shop")
}

// addsLittle looks at what the options bring into a descriptor set.
func addsLittle(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, f := range set.GetFile() {
		sizes[f.GetName()] = proto.Size(f)
	}
	const options = "outrigger/v1/options.proto"
	if n := sizes[options]; n == 0 || n > maxOptionBytes {
		t.Errorf("the options have %d bytes, above %d", n, maxOptionBytes)
	}
	delete(sizes, "shop/v1/orders.proto")
	delete(sizes, "google/protobuf/descriptor.proto")
	if len(sizes) != 1 {
		t.Errorf("the options bring more files along: %v", sizes)
	}
}

// folder is where someone works who reads the page.
type folder struct {
	t   *testing.T
	dir string
	env []string
}

// newcomer has a checkout, the compilers and the sidecar, and a Go module with a program that uses both its generated code
// and the façade. The checkout takes the place of a release.
func newcomer(t *testing.T, checkout, compilers string) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	f.env = append(os.Environ(), "PATH="+strings.Join([]string{bin, compilers, os.Getenv("PATH")}, string(os.PathListSeparator)), "GOFLAGS=-mod=mod", "GOWORK=off")
	f.run("cd '" + checkout + "' && GOFLAGS= go build -o '" + bin + "' ./cmd/sidecar google.golang.org/protobuf/cmd/protoc-gen-go")
	if err := os.Symlink(checkout, filepath.Join(f.dir, "outrigger")); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("go.sum", string(sums))
	f.write("main.go", "package main\n\nimport (\n\t\"github.com/outrigger-mcp/outrigger\"\n\n\t_ \"example.com/shop/gen/shop/v1\"\n)\n\nfunc main() { _ = outrigger.New }\n")
	const module = "github.com/outrigger-mcp/outrigger"
	f.write("go.mod", "module example.com/shop\n\ngo 1.26.0\n\nreplace (\n\t"+module+" => "+checkout+"\n\t"+module+"/proto/options => "+checkout+"/proto/options\n)\n\n"+
		"require "+module+" v0.0.0-00010101000000-000000000000\n")
	// The proxy knows a version, and the replacement has its files.
	const version = "v0.0.0-checkout"
	versions := t.TempDir()
	at := filepath.Join(versions, filepath.FromSlash(module), "proto", "options", "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.env = append(f.env, "GOPROXY=file://"+versions+","+strings.TrimSpace(f.run("go env GOPROXY")))
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) run(command string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = f.dir, f.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	return string(out)
}
