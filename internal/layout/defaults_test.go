// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// ownDefaults are the bounds that no setting changes, by package: their numbers are
// said where they are used. A bound that has a setting takes its default from
// internal/defaults instead.
func ownDefaults() map[string][]string {
	return map[string][]string{
		"cmd/sidecar": {"defaultDrainTimeout", "defaultStatusTimeout"},
		"correlate":   {"DefaultPoolEntries", "DefaultPoolBytes", "DefaultPoolAge"},
		"internal/backend": {"DefaultMaxHeaderBytes", "DefaultMaxMetadataBytes", "DefaultMaxConns", "DefaultMaxHTTP2Conns",
			"DefaultIdleTimeout", "DefaultPingAfter", "DefaultPingTimeout", "DefaultWriteTimeout", "DefaultAttemptTimeout",
			"DefaultMaxMethods"},
		"internal/catalog": {"defaultBackoffMin", "MaxNameBytes", "MaxTitleRunes", "MaxDescriptionBytes",
			"MaxRegistrations", "MaxRegisteredBytes", "defaultCacheTTL", "DefaultSearchResults"},
		"internal/catalog/source": {"MaxFiles", "MaxServices"},
		"internal/compat":         {"MaxBytes", "MaxDepth", "MaxSteps", "MaxChanges"},
		"internal/demo": {"defaultRetryDelay", "DefaultMaxMessageBytes", "DefaultMaxOrders", "DefaultMaxConcurrentStreams",
			"defaultDelivery", "defaultStay", "defaultPageSize", "defaultRounds", "defaultInterval"},
		"internal/event":    {"DefaultMaxBacklogBytes"},
		"internal/feed":     {"DefaultMaxBytes"},
		"internal/grpcwire": {"defaultFrameSize", "defaultWindow"},
		"internal/linefile": {"DefaultFlushEvery", "DefaultCommitWait"},
		"internal/lint":     {"DefaultMaxFindings"},
		"internal/native": {"DefaultMaxTools", "DefaultMaxPages", "DefaultMaxListBytes", "DefaultStreamRetry",
			"DefaultBackoffMin", "DefaultBackoffMax", "DefaultAckTimeout", "DefaultUnofferedPause"},
		"internal/policy":   {"DefaultMaxCounted"},
		"internal/record":   {"DefaultMaxPendingBytes", "DefaultMaxPayloadBytes", "DefaultFlushEvery"},
		"internal/registry": {"DefaultMaxTools"},
		"internal/schema": {"DefaultMaxNumberLength", "DefaultMaxValues", "DefaultMaxViolations", "defaultDepth",
			"defaultInlineBytes", "defaultSchemas", "defaultBytes"},
		"internal/seal": {"DefaultMaxPayload", "DefaultMaxSpent"},
		"internal/session": {"DefaultMaxClient", "DefaultMaxStreams", "DefaultMaxEvents", "DefaultMaxBytes",
			"DefaultMaxKept", "DefaultKeep", "DefaultAskTimeout", "DefaultMaxWatchedBytes"},
		"internal/stats": {"DefaultMaxTools"},
		"internal/task": {"DefaultMaxBytes", "DefaultMaxAge", "DefaultMaxTimeout", "DefaultGrace", "DefaultMaxQuestions",
			"DefaultMaxMessage"},
	}
}

// TestDefaultsStandOnce: the default of a setting is a number in internal/defaults, and
// nowhere else. The configuration has no number of its own, and neither has a package
// that falls back to a default, unless the bound is one that no setting changes.
func TestDefaultsStandOnce(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		if pkg == "internal/config" {
			configHasNoNumber(t, file.ast)
		}
		if pkg != "internal/defaults" {
			found[pkg] = append(found[pkg], fallbacks(file.ast)...)
		}
	}
	listed := ownDefaults()
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		for _, name := range found[pkg] {
			if !slices.Contains(listed[pkg], name) {
				t.Errorf("%s: %s has a number of its own: take it from internal/defaults, or list it here if no setting changes it", pkg, name)
			}
		}
	}
	for pkg, names := range listed {
		for _, name := range names {
			if !slices.Contains(found[pkg], name) {
				t.Errorf("%s: %s is listed, and has no number of its own", pkg, name)
			}
		}
	}
}

// configHasNoNumber looks at the functions that make the default configuration.
func configHasNoNumber(t *testing.T, file *ast.File) {
	t.Helper()
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && slices.Contains([]string{"Defaults", "defaultLimits", "defaultResilience"}, fn.Name.Name) && hasNumber(fn.Body) {
			t.Errorf("internal/config: %s has a number, which belongs in internal/defaults", fn.Name.Name)
		}
	}
}

// fallbacks are the defaults in a file that are numbers: constants that are called
// default, and literals that stand in for options of zero.
func fallbacks(file *ast.File) []string {
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if isDefault.MatchString(name.Name) && i < len(n.Values) && hasNumber(n.Values[i]) && !derives(n.Values[i]) {
					out = append(out, name.Name)
				}
			}
		case *ast.CallExpr:
			if len(n.Args) >= 2 && isFallback(n.Fun) && hasNumber(n.Args[1]) && !derives(n.Args[1]) {
				out = append(out, fieldOf(n.Args[0]))
			}
		}
		return true
	})
	return out
}

var isDefault = regexp.MustCompile(`^[dD]efault[A-Z]`)

// isFallback reports whether a function returns its second argument where the first
// is zero.
func isFallback(fun ast.Expr) bool {
	switch fun := fun.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"bounded"}, fun.Name)
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		return ok && (pkg.Name == "cmp" && fun.Sel.Name == "Or" || pkg.Name == "defaults" && fun.Sel.Name == "Fill")
	}
	return false
}

// hasNumber reports whether a number other than zero is written somewhere below.
func hasNumber(n ast.Node) bool {
	has := false
	ast.Inspect(n, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		has = has || ok && (lit.Kind == token.INT || lit.Kind == token.FLOAT) && lit.Value != "0"
		return true
	})
	return has
}

// derives reports whether an expression is made of a default that stands elsewhere.
func derives(n ast.Node) bool {
	has := false
	ast.Inspect(n, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if ok {
			pkg, isName := sel.X.(*ast.Ident)
			has = has || isName && pkg.Name == "defaults"
		}
		return true
	})
	return has
}

// fieldOf names the field that a fallback is for.
func fieldOf(n ast.Node) string {
	name := "?"
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			name = sel.Sel.Name
			return false
		}
		return true
	})
	return name
}
