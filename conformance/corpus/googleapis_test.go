// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// googleapis gathers Google's APIs: those that are linked, and all versions of them that the same modules have as generated
// code.
func googleapis(t *testing.T) map[string]*descriptorpb.FileDescriptorProto {
	t.Helper()
	out := map[string]*descriptorpb.FileDescriptorProto{}
	sources.Linked().Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(fd.Path(), "google/") || strings.HasPrefix(fd.Path(), "grafeas/") {
			out[fd.Path()] = protodesc.ToFileDescriptorProto(fd)
		}
		return true
	})
	listed, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(listed)) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir != "" && (strings.HasPrefix(module, "cloud.google.com/go/") || strings.HasPrefix(module, "google.golang.org/genproto")) {
			generatedIn(t, dir, out)
		}
	}
	return out
}

// generatedIn adds the descriptors in the generated code of a module.
func generatedIn(t *testing.T, dir string, out map[string]*descriptorpb.FileDescriptorProto) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".pb.go") {
			return err
		}
		files, err := sources.Generated(path)
		if err != nil {
			return nil //nolint:nilerr // the code of a client, or of an older generator
		}
		for name, file := range files {
			if out[name] == nil && strings.HasPrefix(name, "google/") {
				out[name] = file
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeSet(t *testing.T, path string, files map[string]*descriptorpb.FileDescriptorProto) {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range files {
		set.File = append(set.File, f)
	}
	slices.SortFunc(set.File, func(a, b *descriptorpb.FileDescriptorProto) int { return strings.Compare(a.GetName(), b.GetName()) })
	raw, err := proto.Marshal(set)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// untangled gives the methods a name of their own that would be a start error: those of different services that have one
// simple name. Versions of one service are not among them.
func untangled(t *testing.T, err error) []catalog.Override {
	t.Helper()
	var broken *catalog.BuildError
	if err == nil {
		return nil
	}
	if !errors.As(err, &broken) || len(broken.Problems) > 0 {
		t.Fatal(err)
	}
	var out []catalog.Override
	seen := map[string]bool{}
	for _, c := range broken.Collisions {
		for _, method := range c.Methods {
			if seen[method] {
				continue
			}
			seen[method] = true
			service, name, _ := strings.Cut(method, "/")
			out = append(out, catalog.Override{Match: method, Options: &configv1.ToolOptions{
				Name: strings.ToLower(strings.ReplaceAll(service, ".", "_") + "." + name),
			}})
		}
	}
	return out
}

// TestGoogleapisLoads makes a catalog of all of Google's APIs that modules hold, in all their versions. What it says of
// time and memory is for the log.
func TestGoogleapisLoads(t *testing.T) {
	files := googleapis(t)
	path := filepath.Join(t.TempDir(), "googleapis.binpb")
	writeSet(t, path, files)
	from := []source.Source{source.NewDescriptorFile(path, source.Limits{})}
	err := catalog.NewLive(from, catalog.LiveOptions{}).Refresh(t.Context())
	overlay := untangled(t, err)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	live := catalog.NewLive(from, catalog.LiveOptions{Build: catalog.BuildOptions{Overlay: overlay}})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	c := live.Current()
	all := len(c.Tools())
	t.Logf("%d files, %d methods, of which %d share a name with another service; ready after %v, %d B of heap for each", len(files), all, len(overlay),
		took, (after.HeapAlloc-before.HeapAlloc)/uint64(all))
	const least = 6000
	if all < least {
		t.Errorf("%d methods, want %d", all, least)
	}
	for _, w := range c.Warnings() {
		if strings.Contains(w.Text, "left out") {
			t.Errorf("%s", w)
		}
	}
	versionsAreApart(t, c)
	oneMoreFile(t, live, path, files)
}

// versionsAreApart holds that the highest version has the plain name.
func versionsAreApart(t *testing.T, c *catalog.Catalog) {
	t.Helper()
	for name, want := range map[string]string{
		"/google.cloud.aiplatform.v1.EndpointService/GetEndpoint":      "endpoint.get_endpoint",
		"/google.cloud.aiplatform.v1beta1.EndpointService/GetEndpoint": "endpoint_v1beta1.get_endpoint",
		"/google.cloud.retail.v2.CatalogService/ListCatalogs":          "catalog.list_catalogs",
		"/google.cloud.retail.v2alpha.CatalogService/ListCatalogs":     "catalog_v2alpha.list_catalogs",
		"/google.cloud.retail.v2beta.CatalogService/ListCatalogs":      "catalog_v2beta.list_catalogs",
	} {
		tool, ok := c.ByProcedure(name)
		if !ok || !strings.HasSuffix(tool.Name, want) {
			t.Errorf("%s is %+v, want %s", name, tool.Name, want)
		}
	}
}

// oneMoreFile adds a file, and holds that no other is linked again.
func oneMoreFile(t *testing.T, live *catalog.Live, path string, files map[string]*descriptorpb.FileDescriptorProto) {
	t.Helper()
	before := live.Current()
	files["added.proto"] = &descriptorpb.FileDescriptorProto{Name: new("added.proto"), Package: new("added"), MessageType: []*descriptorpb.DescriptorProto{{Name: new("M")}}}
	writeSet(t, path, files)
	start := time.Now()
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("one more file: %v", time.Since(start))
	for _, p := range live.Current().Paths() {
		was, err := before.Files().FindFileByPath(p)
		if now, _ := live.Current().Files().FindFileByPath(p); p != "added.proto" && (err != nil || was != now) {
			t.Errorf("%s was linked again", p)
		}
	}
}
