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
		"internal/backend": {"defaultMaxHeaderBytes", "defaultMaxMetadataBytes", "defaultMaxConns", "defaultMaxHTTP2Conns",
			"defaultIdleTimeout", "defaultPingTimeout", "defaultAttemptTimeout", "defaultMaxMethods",
			"defaultMaxTools", "defaultMaxPages", "defaultMaxListBytes", "defaultStreamRetry"},
		"internal/catalog": {"defaultBackoffMin", "MaxNameBytes", "MaxTitleRunes", "MaxDescriptionBytes",
			"MaxRegistrations", "MaxRegisteredBytes", "defaultCacheTTL", "DefaultSearchResults"},
		"internal/source": {"MaxFiles", "MaxServices"},
		"internal/demo": {"defaultRetryDelay", "defaultMaxMessageBytes", "defaultMaxOrders", "DefaultMaxConcurrentStreams",
			"defaultDelivery", "defaultStay", "defaultPageSize", "defaultRounds", "defaultInterval"},
		"internal/notify": {"defaultMaxBacklogBytes", "defaultMaxFilterBytes"},
		"internal/h2":     {"defaultFrameSize", "defaultWindow"},
		"internal/report": {"MaxBytes", "MaxDepth", "MaxSteps", "MaxChanges", "DefaultMaxFindings"},
		"internal/policy": {"defaultMaxCounted", "MaxCost", "MaxRules", "MaxExpressionBytes"},
		"internal/trail": {"defaultFlushEvery", "defaultCommitWait", "defaultMaxPendingDocumentBytes",
			"defaultMaxPayloadBytes", "defaultFlushRecordEvery"},
		"internal/schema": {"DefaultMaxNumberLength", "DefaultMaxValues", "DefaultMaxViolations", "defaultDepth",
			"defaultInlineBytes", "defaultSchemas", "defaultBytes"},
		"internal/keys": {"defaultMaxPayload", "defaultMaxSpent"},
		"internal/session": {"defaultIdle", "DefaultMaxClient", "defaultMaxStreams", "defaultMaxEvents", "defaultMaxBytes",
			"defaultMaxKept", "defaultKeep", "defaultAskTimeout", "defaultMaxWatchedBytes"},
		"internal/telemetry": {"DefaultMaxTools"},
		"internal/task":      {"defaultMaxBytes"},
	}
}

// TestDefaultsStandOnce: the default of a setting is an option of its field, and nowhere
// else. No package that falls back to a default has a number, unless the bound is one that
// no setting changes.
func TestDefaultsStandOnce(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, file := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(file.path))
		if pkg != "internal/defaults" {
			found[pkg] = append(found[pkg], fallbacks(file.ast)...)
		}
	}
	listed := ownDefaults()
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		for _, name := range found[pkg] {
			if !slices.Contains(listed[pkg], name) {
				t.Errorf("%s: %s has its own number: take it from internal/defaults, or list it here if no setting changes it", pkg, name)
			}
		}
	}
	for pkg, names := range listed {
		for _, name := range names {
			if !slices.Contains(found[pkg], name) {
				t.Errorf("%s: %s is listed but defines no number", pkg, name)
			}
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

// derives reports whether an expression is made of a default that is elsewhere.
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
