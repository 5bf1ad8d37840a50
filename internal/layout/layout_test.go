// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/outrigger-mcp/outrigger/"

// allowed says which of our own packages a package may import; a prefix counts
// for all below it, and all may import the leaves. What is not listed may import
// anything.
func allowed() map[string][]string {
	return map[string][]string{
		"internal/jsonrpc":             {},
		"internal/schema":              {},
		"internal/transcode":           {"internal/schema"},
		"internal/identity":            {"gen", "internal/keys", "errmap", "internal/catalog/glob", "internal/telemetry/loglimit", "internal/telemetry"},
		"internal/identity/behalf":     {"gen", "internal/identity", "internal/telemetry/loglimit", "errmap", "internal/keys"},
		"internal/catalog/lock":        {},
		"internal/catalog":             {"internal/schema", "internal/source", "internal/catalog/lock", "internal/catalog/resource", "internal/jsonrpc", "internal/catalog/longrunning", "internal/transcode", "gen", "internal/telemetry/redact", "proto/options"},
		"internal/catalog/longrunning": {},
		"internal/content":             {"internal/peer", "internal/schema", "internal/jsonrpc", "gen", "errmap"},
		"internal/backend":             {"internal/source", "internal/telemetry/loglimit", "internal/telemetry", "internal/h2", "internal/catalog", "internal/content/boundedgzip", "internal/peer", "internal/keys", "gen", "errmap", "internal/catalog/glob"},
		"internal/h2":                  {},
		"internal/notify":              {"errmap", "gen", "internal/catalog/glob", "internal/peer", "internal/state"},
		"internal/session":             {"internal/telemetry", "internal/notify", "internal/jsonrpc", "correlate", "gen", "internal/peer", "internal/keys", "internal/state"},
		"internal/policy":              {"gen", "internal/config", "internal/transcode", "internal/catalog", "errmap", "internal/catalog/glob", "internal/peer", "internal/identity", "internal/backend", "internal/telemetry"},
		"internal/contracttest":        {"internal/jsonrpc", "internal/schema", "internal/catalog", "testdata/schemas"},
		"internal/trail":               {"gen", "internal/catalog", "internal/telemetry/redact", "internal/catalog/glob"},
		"internal/telemetry/redact":    {},
		"internal/keys":                {"internal/catalog/glob"},
		"internal/task":                {"correlate", "errmap", "gen", "internal/catalog", "internal/content", "internal/keys", "internal/catalog/longrunning", "internal/peer", "internal/schema"},
		"internal/state":               {"gen", "internal/keys", "internal/telemetry"},
		"internal/task/approval":       {"errmap", "gen", "internal/state"},
		"internal/task/taskstore":      {"gen", "internal/peer", "internal/state", "internal/task"},
		"internal/report":              {"errmap", "gen", "internal/backend", "internal/catalog", "internal/catalog/compact", "internal/dialect", "internal/jsonrpc", "internal/keys", "internal/catalog/listcost", "internal/config", "internal/policy", "internal/state/registrationstore", "internal/schema", "internal/server/upstream", "internal/session", "internal/offer", "internal/source", "internal/state", "internal/task/approval", "internal/task/taskstore", "internal/telemetry"},
		"internal/catalog/search":      {},
		"internal/client":              {"gen", "errmap", "internal/backend", "internal/catalog", "internal/catalog/compact", "internal/catalog/search", "internal/content", "internal/keys"},
		"internal/content/boundedzstd": {},
		"internal/edge/httpcompress":   {"internal/content/boundedzstd"},
		"internal/catalog/listcost":    {"gen"},
		"internal/catalog/compact":     {"gen", "internal/catalog", "internal/catalog/search"},
		"correlate":                    {"internal/jsonrpc"},
		"errmap":                       {"gen"},
		"bridge":                       {"internal/telemetry", "internal/trail", "internal/jsonrpc", "internal/schema", "internal/transcode", "internal/catalog", "internal/source", "internal/backend", "internal/content", "internal/keys", "internal/task", "internal/policy", "internal/identity", "internal/content/bytepool", "internal/telemetry/loglimit", "internal/peer", "internal/catalog/compact", "internal/program", "internal/program/check", "correlate", "errmap", "gen"},
		"internal/dialect":             {"internal/offer", "internal/telemetry", "internal/content", "bridge", "internal/jsonrpc", "internal/catalog", "internal/catalog/compact", "internal/catalog/listcost", "internal/notify", "internal/session", "internal/trail", "internal/telemetry/redact", "internal/backend", "internal/content/bytepool", "correlate", "errmap", "gen"},
		"internal/telemetry":           {"internal/telemetry/redact", "errmap"},
		"internal/config":              {"gen"},
		"internal/catalog/glob":        {},
		"internal/jsontext":            {},
		"internal/defaults":            {},
		"internal/telemetry/loglimit":  {},
		"internal/peer":                {"internal/h2"},
		"internal/server/admin":        {},
		"internal/content/bytepool":    {},
		"internal/server/lifecycle":    {},
		"internal/server/lastresort":   {},
		"internal/mcpschema":           {"internal/jsonrpc"},
		"internal/demo":                {"internal/edge/httpshutdown", "gen"},
		"internal/reload":              {"gen"},
		"internal/offer":               {"bridge", "internal/identity", "internal/catalog", "internal/catalog/compact", "internal/notify", "internal/content", "internal/keys", "internal/telemetry", "errmap", "gen"},
		"internal/source":              {"internal/source/shown", "internal/source/wire", "internal/keys", "gen", "proto/options"},
		"internal/oauthtest":           {"internal/backend"},
		"internal/otlptest":            {},

		// What a scrape shows comes from most rooms, so that it is above them, and the counts that they keep below.
		"internal/telemetry/export": {"internal/catalog/listcost", "internal/trail", "internal/catalog", "internal/notify", "internal/policy", "internal/backend", "errmap", "internal/server/lifecycle", "internal/server/webhook", "internal/reload", "internal/telemetry", "internal/state", "internal/task", "internal/task/approval", "internal/task/taskstore", "internal/keys", "gen", "internal/identity"},

		// The tests' rig is made by internal/server, and not of the parts of the pipeline. It gives their types names for tests.
		"internal/mcptest": {"internal/server", "internal/policy", "internal/backend/recorded", "internal/config", "internal/dialect", "internal/catalog", "internal/source", "internal/demo", "internal/keys", "internal/session", "internal/testkit", "bridge", "errmap", "gen", "proto/options", "correlate", "internal/identity", "internal/edge/stdio", "internal/notify", "internal/content", "internal/jsonrpc", "internal/schema", "internal/task", "internal/telemetry"},
	}
}

// leaves are the packages that all of ours may import: they import none.
func leaves() []string {
	return []string{"internal/jsontext", "internal/defaults", "internal/telemetry/logkey"}
}

// onlyEdgesImportBridge lists who may import the package bridge: the dialects in
// front of it, and the edges.
func onlyEdgesImportBridge() []string {
	return []string{"internal/dialect", "internal/offer", "internal/edge", "cmd/sidecar", "internal/server", "internal/edge/httpbody", "internal/mcptest"}
}

// thirdParties says where a third party's types may appear.
func thirdParties() map[string][]string {
	return map[string][]string{
		"connectrpc.com/connect":                   {"bridge", "internal/backend", "internal/source", "internal/catalog", "internal/task", "internal/edge/connectapi", "errmap", "gen", "internal/demo", "internal/mcptest", "cmd/sidecar", "internal/client", "internal/server/console"},
		"github.com/santhosh-tekuri/jsonschema/v6": {"internal/schema", "internal/mcpschema"},
		"buf.build/go/protovalidate":               {"internal/schema", "internal/transcode", "internal/backend", "internal/edge/connectapi", "internal/config", "internal/demo", "internal/mcptest"},
		"github.com/go-jose/go-jose/v4":            {"internal/identity/behalf", "internal/identity", "internal/oauthtest"},
		"github.com/spf13/cobra":                   {"cmd/sidecar"},
		"github.com/envoyproxy":                    {},
		"cel.dev/cel-go":                           {"internal/policy", "internal/schema"},
		"github.com/prometheus":                    {"internal/telemetry", "deploy/injector"},
		"github.com/nats-io":                       {"internal/state"},
		"oras.land/oras-go/v2":                     {"internal/source"},
		"github.com/opencontainers":                {"internal/source"},
		"go.opentelemetry.io":                      {"internal/telemetry", "internal/otlptest"},
		"go.starlark.net":                          {"internal/program"},
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

// TestBlackBoxNamesNoInsides: the tests of the whole pipeline name none of its parts, so that a part can change without them.
func TestBlackBoxNamesNoInsides(t *testing.T) {
	t.Parallel()
	const blackbox = "bridge/blackbox"
	open := []string{
		"", "errmap", "gen", "proto/options", "testdata/schemas", "internal/mcptest", "internal/testkit", "internal/mcpschema",
		"internal/operationtest", "internal/ratetest", // servers for tests
		"internal/contracttest", // checks documents against the published schemas
	}
	for _, file := range goFiles(t) {
		for _, spec := range file.ast.Imports {
			own, ok := strings.CutPrefix(importPath(spec)+"/", module)
			if own = strings.TrimSuffix(own, "/"); ok && file.pkg == blackbox && !within(own, open) {
				t.Errorf("%s imports %s: internal/mcptest should give it what it needs", file.path, own)
			}
		}
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
	places := []string{"internal/server/upstream"}
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		for _, spec := range file.ast.Imports {
			if spec.Path.Value == strconv.Quote(module+"internal/identity/behalf") && !slices.Contains(places, pkg) {
				t.Errorf("%s imports internal/identity/behalf; only %v may", file.path, places)
			}
		}
		ast.Inspect(file.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "WithToken" && filepath.ToSlash(file.path) != "internal/server/upstream/behalf.go" {
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

// TestCommentsNameFilesThatExist: a file that a comment names is beside it, or where its path says.
func TestCommentsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	name, libraries := regexp.MustCompile(`[a-z0-9_./-]*[a-z0-9_]\.go\b`), []string{"nats.go"}
	for _, file := range sources(t) {
		for _, group := range file.ast.Comments {
			for _, named := range name.FindAllString(group.Text(), -1) {
				_, beside := os.Stat(filepath.Join("..", "..", filepath.Dir(file.path), named))
				_, inRoot := os.Stat(filepath.Join("..", "..", named))
				if beside != nil && inRoot != nil && !slices.Contains(libraries, path.Base(named)) {
					t.Errorf("%s names %s, which does not exist", file.path, named)
				}
			}
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
