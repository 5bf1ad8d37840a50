// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/outrigger-mcp/outrigger/"

// allowed says which of our own packages a package may import; a prefix stands
// for all below it, and all may import the leaves. What is not listed may import
// anything.
func allowed() map[string][]string {
	return map[string][]string{
		"internal/jsonrpc":      {},
		"internal/annotation":   {},
		"internal/schema":       {"internal/annotation"},
		"internal/transcode":    {"internal/schema"},
		"internal/access":       {"internal/glob"},
		"internal/behalf":       {"internal/access", "internal/loglimit", "errmap", "internal/tlsfiles"},
		"internal/catalog/lock": {},
		"internal/serverjson":   {},
		"internal/catalog":      {"internal/annotation", "internal/catalog/internal", "internal/catalog/lock", "internal/catalog/resource", "internal/catalog/source", "internal/fieldrules", "internal/jsonrpc", "internal/longrunning", "internal/schema", "internal/transcode", "gen", "internal/redact", "proto/options"},
		"internal/longrunning":  {},
		"internal/held":         {"internal/share"},
		"internal/watch":        {"internal/share", "errmap"},
		"internal/backend":      {"internal/tracing", "internal/grpcwire", "internal/catalog", "internal/boundedgzip", "internal/stall", "internal/tlsfiles"},
		"internal/grpcwire":     {},
		"internal/fieldrules":   {},
		"internal/h2server":     {},
		"internal/hub":          {},
		"internal/event":        {"internal/hub"},
		"internal/feed":         {"internal/hub", "gen"},
		"internal/native":       {"internal/backend", "gen"},
		"internal/session":      {"internal/tracing", "internal/feed", "internal/jsonrpc", "correlate", "gen", "internal/share"},
		"internal/mcpjson":      {"internal/fieldrules", "internal/jsonrpc", "gen"},
		"internal/policy":       {"internal/catalog", "errmap", "internal/glob", "internal/share", "internal/stall"},
		"internal/registry":     {"internal/jsonrpc", "internal/schema", "internal/catalog", "testdata/schemas"},
		"internal/record":       {"errmap", "internal/redact"},
		"internal/linefile":     {},
		"internal/redact":       {},
		"internal/audit":        {"internal/glob", "internal/linefile", "internal/redact"},
		"internal/resilience":   {"errmap", "internal/stall"},
		"internal/rateservice":  {"internal/access", "internal/backend", "internal/stats", "errmap"},
		"internal/seal":         {"internal/tlsfiles"},
		"internal/stats":        {"errmap"},
		"internal/task":         {"errmap", "gen", "internal/fieldrules", "internal/share"},
		"internal/state":        {"internal/seal", "internal/stats", "internal/tlsfiles"},
		"internal/taskstore":    {"gen", "internal/share", "internal/state", "internal/task"},
		"internal/compat":       {"internal/catalog", "internal/jsonrpc"},
		"internal/lint":         {"internal/catalog", "internal/compat", "internal/listcost", "internal/schema"},
		"internal/search":       {},
		"internal/boundedzstd":  {},
		"internal/httpcompress": {"internal/boundedzstd"},
		"internal/listcost":     {},
		"internal/compact":      {"internal/catalog", "internal/search"},
		"internal/fieldmask":    {"internal/schema"},
		"internal/truncate":     {"internal/schema"},
		"internal/fit":          {"internal/schema", "internal/fieldmask", "internal/truncate", "internal/mcpjson", "errmap", "gen"},
		"correlate":             {"internal/jsonrpc"},
		"errmap":                {"gen"},
		"bridge":                {"internal/tracing", "internal/audit", "internal/redact", "internal/record", "internal/jsonrpc", "internal/schema", "internal/transcode", "internal/catalog", "internal/backend", "internal/native", "internal/mcpjson", "internal/seal", "internal/stats", "internal/task", "internal/feed", "internal/policy", "internal/resilience", "internal/access", "internal/bytepool", "internal/loglimit", "internal/metadata", "internal/share", "internal/held", "internal/watch", "internal/longrunning", "internal/compact", "internal/skills", "internal/fieldmask", "internal/truncate", "internal/fit", "correlate", "errmap", "gen", "internal/record"},
		"internal/httpspan":     {"internal/tracing", "internal/stats", "errmap"},
		"internal/dialect":      {"internal/tracing", "internal/httpspan", "internal/fit", "internal/stats", "bridge", "internal/jsonrpc", "internal/catalog", "internal/compact", "internal/listcost", "internal/mcpjson", "internal/feed", "internal/session", "internal/record", "internal/redact", "internal/metadata", "internal/bytepool", "correlate", "errmap", "gen"},
		"internal/telemetry":    {"internal/tracing", "internal/stats", "internal/tlsfiles", "gen"},
		"internal/config":       {"gen"},
		"internal/glob":         {},
		"internal/jsontext":     {},
		"internal/defaults":     {},
		"internal/loglimit":     {},
		"internal/stall":        {},
		"internal/tlsfiles":     {"internal/glob"},
		"internal/spec":         {"internal/catalog", "internal/schema", "errmap"},
		"internal/admin":        {},
		"internal/bytepool":     {},
		"internal/lifecycle":    {},
		"internal/lastresort":   {},
		"internal/doctor":       {"internal/dialect", "internal/listcost", "internal/compact", "internal/telemetry", "internal/backend", "internal/catalog", "internal/policy", "gen", "internal/server/settings", "internal/server/upstream"},
		"internal/server/route": {"errmap", "gen", "internal/stats"},
		"internal/server/conn":  {"internal/connlimit", "internal/h2server"},
		"internal/share":        {},
		"internal/slowpeer":     {"internal/share"},
		"internal/memory":       {},
		"internal/metadata":     {"errmap", "internal/glob"},
		"internal/mcpschema":    {"internal/jsonrpc"},
		"internal/rules":        {"internal/access", "internal/catalog", "internal/glob", "errmap"},
		"internal/metrics":      {"internal/listcost", "internal/audit", "internal/linefile", "internal/catalog", "internal/event", "internal/policy", "internal/record", "internal/resilience", "internal/stats", "errmap", "internal/lifecycle", "internal/reload", "internal/rules", "internal/telemetry", "internal/tracing", "internal/watch", "internal/state", "internal/task", "internal/taskstore"},
		"internal/demo":         {"internal/httpshutdown", "gen"},
		"internal/reload":       {"gen"},
		"internal/skills":       {"gen"},
		"internal/fetch":        {"internal/catalog", "internal/tlsfiles"},
		"internal/oauth":        {"internal/access", "internal/loglimit", "internal/protectedresource"},
		"internal/oauthtest":    {"internal/inprocess"},
		"internal/otlptest":     {},

		// The tests' rig is made by internal/server, and not of the parts of the pipeline.
		"internal/mcptest": {"internal/server", "internal/config", "internal/dialect", "internal/catalog", "internal/demo", "internal/seal", "internal/session", "internal/testkit", "bridge", "errmap", "gen", "proto/options"},
	}
}

// leaves are the packages that all of ours may import: they import none.
func leaves() []string { return []string{"internal/jsontext", "internal/defaults", "internal/logkey"} }

// onlyEdgesImportBridge lists who may import the package bridge: the dialects in
// front of it, and the edges.
func onlyEdgesImportBridge() []string {
	return []string{"internal/dialect", "internal/edge", "cmd/sidecar", "internal/server", "internal/httpbody", "internal/mcptest"}
}

// thirdParties says where a third party's types may appear.
func thirdParties() map[string][]string {
	return map[string][]string{
		"connectrpc.com/connect":                   {"bridge", "internal/backend", "internal/catalog", "internal/native", "internal/edge/connectapi", "errmap", "gen", "internal/demo", "internal/mcptest", "cmd/sidecar"},
		"github.com/santhosh-tekuri/jsonschema/v6": {"internal/schema", "internal/mcpschema"},
		"buf.build/go/protovalidate":               {"internal/schema", "internal/transcode", "internal/native", "internal/edge/connectapi", "internal/config", "internal/demo", "internal/mcptest"},
		"github.com/go-jose/go-jose/v4":            {"internal/behalf", "internal/oauth", "internal/oauthtest"},
		"github.com/spf13/cobra":                   {"cmd/sidecar"},
		"github.com/envoyproxy":                    {"internal/rateservice", "internal/ratetest"},
		"cel.dev/cel-go":                           {"internal/rules", "internal/schema"},
		"github.com/prometheus":                    {"internal/metrics", "internal/telemetry"},
		"github.com/nats-io":                       {"internal/state"},
		"oras.land/oras-go/v2":                     {"internal/fetch"},
		"github.com/opencontainers":                {"internal/fetch"},
		"go.opentelemetry.io":                      {"internal/tracing", "internal/telemetry", "internal/otlptest"},
		"google.golang.org/grpc":                   {"internal/oddtest", "internal/operationtest", "internal/ratetest"},
		"cloud.google.com/go/longrunning":          {"internal/operationtest"},
		"github.com/modelcontextprotocol/go-sdk":   {},
	}
}

// TestDependencyDirection keeps the imports of the project's own code as
// docs/ARCHITECTURE.md describes them.
func TestDependencyDirection(t *testing.T) {
	t.Parallel()
	rules, third := allowed(), thirdParties()
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		for _, spec := range file.ast.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(path, module); ok {
				checkOwn(t, file.path, pkg, own, rules)
				continue
			}
			for prefix, places := range third {
				if (path == prefix || strings.HasPrefix(path, prefix+"/")) && !within(pkg, places) {
					t.Errorf("%s imports %s, which belongs in %v", file.path, path, places)
				}
			}
		}
	}
}

func checkOwn(t *testing.T, path, pkg, own string, rules map[string][]string) {
	t.Helper()
	if slices.Contains(leaves(), own) {
		return
	}
	if list, ok := rules[pkg]; ok && own != pkg && !within(own, list) {
		t.Errorf("%s: %s may import %v, not %s", path, pkg, list, own)
	}
	if own == "bridge" && pkg != "bridge" && !within(pkg, onlyEdgesImportBridge()) {
		t.Errorf("%s: only %v may import bridge", path, onlyEdgesImportBridge())
	}
}

// within reports whether pkg is one of the places or below one of them. The
// package bridge itself is not a prefix: its rooms are places of their own.
func within(pkg string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool {
		return pkg == place || (place != "bridge" && strings.HasPrefix(pkg, place+"/"))
	})
}

// TestOneWriterOfTokens: the caller's token is put into a context in one place, and
// nothing but the assembly reaches the package that can read it.
func TestOneWriterOfTokens(t *testing.T) {
	t.Parallel()
	places := []string{"internal/server", "internal/server/settings"}
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		for _, spec := range file.ast.Imports {
			if spec.Path.Value == strconv.Quote(module+"internal/behalf") && !slices.Contains(places, pkg) {
				t.Errorf("%s imports internal/behalf; only %v may", file.path, places)
			}
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "WithToken" && filepath.ToSlash(file.path) != "internal/server/behalf.go" {
				t.Errorf("%s puts a caller's token into a context", file.path)
			}
			return true
		})
	}
}

// TestNoHiddenState refuses init functions: everything is made by New and
// passed down.
func TestNoHiddenState(t *testing.T) {
	t.Parallel()
	for _, file := range sources(t) {
		for _, decl := range file.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function", file.path)
			}
		}
	}
}

// TestFilesSayTheirLicence checks the first line of every file of ours.
func TestFilesSayTheirLicence(t *testing.T) {
	t.Parallel()
	for _, file := range sources(t) {
		if len(file.ast.Comments) == 0 || file.ast.Comments[0].List[0].Text != "// SPDX-License-Identifier: Apache-2.0" {
			t.Errorf("%s does not begin with its licence", file.path)
		}
	}
}

// TestPackagesSayTheirJob checks that every package has a comment.
func TestPackagesSayTheirJob(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, file := range sources(t) {
		pkg := filepath.Dir(file.path)
		documented[pkg] = documented[pkg] || file.ast.Doc != nil
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

type source struct {
	path string
	ast  *ast.File
}

// sources parses the project's own files, without tests and generated code.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "gen" || name == "testdata" ||
				name == "node_modules" || name == "bench" || name == "conformance" || name == "observability") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		short, err := filepath.Rel(root, path)
		out = append(out, source{path: short, ast: file})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
