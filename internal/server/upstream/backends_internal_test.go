// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestFixesOfOneOfSeveralBackends: a fix is in the entry of the backend, since flags are for the only one and are refused.
func TestFixesOfOneOfSeveralBackends(t *testing.T) {
	t.Parallel()
	target, err := backend.ParseTarget("grpc://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	only := Diagnoser{Client: client}
	shop := only
	shop.Name = "shop"
	failed := errors.New("it failed")
	before, after := []string{only.FixOffered()}, []string{shop.FixOffered()}
	for _, f := range []backend.Fault{
		backend.FaultUnknownHost, backend.FaultRefused, backend.FaultNoAnswer, backend.FaultHungUp, backend.FaultNeedsTLS, backend.FaultNoTLS, backend.FaultAuthority,
		backend.FaultName, backend.FaultExpired, backend.FaultCertificate, backend.FaultClientCertificate, backend.FaultNoHTTP2, backend.FaultWebServer, backend.FaultNotRPC,
		backend.FaultCredentials, backend.FaultForbidden, backend.FaultNotServed, backend.FaultUnknown,
	} {
		d := only.faultDiagnosis(f, failed)
		before, after = append(before, d.Fix), append(after, shop.inEntry(d.Fix, " in the entry shop of backends"))
		if what := shop.inEntry(d.What, ""); strings.Contains(what, "--") {
			t.Errorf("%v: %s", f, what)
		}
	}
	for _, err := range []error{
		fmt.Errorf("load: %w", &source.FetchError{}), &backend.InvalidAnswerError{}, source.ErrUndescribed, catalog.ErrEmpty, source.ErrNoServices,
	} {
		before, after = append(before, only.Diagnose(t.Context(), err).Fix), append(after, shop.Diagnose(t.Context(), err).Fix)
	}
	for i, fix := range after {
		own := strings.NewReplacer("--include and --exclude", "", "with --exclude", "").Replace(fix) // those of all backends
		isOurs := strings.Contains(before[i], "--backend") || strings.Contains(before[i], "--descriptors") || strings.Contains(before[i], "--native")
		if strings.Contains(own, "--") || isOurs != strings.HasSuffix(fix, " in the entry shop of backends") {
			t.Errorf("%s\nbecomes %s", before[i], fix)
		}
	}
}

func TestReadinessOfBackends(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		wanted []string
		// what a, b and c say of themselves: they answer, have no tools, or have not been asked.
		a, b, c string
		isReady bool
		why     string
	}{
		{"any, all there", []string{"any"}, "ok", "ok", "ok", true, "3 of 3 backends can be used"},
		{"any, one there", []string{"any"}, "away", "ok", "none", true, "1 of 3 backends can be used; not a (away), c (not asked yet)"},
		{"any, none there", []string{"any"}, "away", "away", "none", false, "0 of 3 backends can be used; not a (away), b (away), c (not asked yet)"},
		{"no setting is any", nil, "away", "ok", "away", true, "1 of 3"},
		{"all, one away", []string{"all"}, "ok", "away", "ok", false, "2 of 3 backends can be used; not b (away)"},
		{"all, all there", []string{"all"}, "ok", "ok", "ok", true, "3 of 3"},
		{"named, there", []string{"b"}, "away", "ok", "away", true, "1 of 3"},
		{"named, away", []string{"b", "c"}, "ok", "away", "ok", false, "2 of 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			machine := lifecycle.New(nil)
			r := &readiness{life: machine, wanted: tc.wanted}
			all := map[string]*partLife{}
			for _, name := range []string{"a", "b", "c"} {
				all[name] = r.of(name)
			}
			for name, said := range map[string]string{"a": tc.a, "b": tc.b, "c": tc.c} {
				switch said {
				case "ok":
					all[name].Set(needAnswer, false, "not yet")
					all[name].Set(needAnswer, true, "it answers")
				case "away":
					all[name].Set(needAnswer, true, "it answers")
					all[name].Set(needBackend, false, "away")
				}
			}
			now := machine.Status()
			if isReady := now.State == lifecycle.Ready; isReady != tc.isReady || len(now.Needs) != 1 || !strings.HasPrefix(now.Needs[0].Why, tc.why) {
				t.Errorf("%v: %v", now.State, now.Needs)
			}
			if needs := all["a"].Status().Needs; tc.a == "away" && (len(needs) != 2 || needs[1].OK) {
				t.Errorf("a says %v", needs)
			}
		})
	}
}
