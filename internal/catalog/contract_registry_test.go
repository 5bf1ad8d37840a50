// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestContractOfRegistration has the sentences about tools that are registered.
func TestContractOfRegistration(t *testing.T) {
	t.Parallel()

	t.Run("a registration has name, description, input schema, binding and metadata", func(t *testing.T) {
		t.Parallel()
		live, _ := shop(t, BuildOptions{})
		tool := mustRegister(t, live, Registration{
			Name: "desk.look", Description: "Look.", InputSchema: json.RawMessage(takesNumber), Binding: Binding{"shop.v1.Shop", "Get"},
			Metadata: RegisteredMetadata{Module: "desk", Destructive: true, DeprecatedIn: "2.0.0", CacheTTL: new(7 * time.Second)},
		})
		want := Metadata{Module: "desk", Destructive: true, DeprecatedIn: "2.0.0", CacheTTL: 7 * time.Second}
		if diff := cmp.Diff(want, tool.Metadata); diff != "" || tool.Name != "desk.look" || tool.Method.Procedure != "/shop.v1.Shop/Get" {
			t.Errorf("%s %s: %s", tool.Name, tool.Method.Procedure, diff)
		}
	})

	t.Run("a registration is idempotent", func(t *testing.T) {
		t.Parallel()
		live, _ := shop(t, BuildOptions{})
		first := mustRegister(t, live, registration())
		fingerprint := live.Current().Fingerprint()
		again, created, err := live.Register(t.Context(), registration())
		if err != nil || created || again != first || live.Current().Fingerprint() != fingerprint {
			t.Errorf("created %v, error %v", created, err)
		}
	})

	refused := func(t *testing.T, r Registration, why Refusal) {
		t.Helper()
		live, _ := shop(t, BuildOptions{})
		mustRegister(t, live, registration())
		_, created, err := live.Register(t.Context(), r)
		var e *RegistrationError
		if !errors.As(err, &e) || e.Reason != why || created {
			t.Errorf("created %v, error %v, want reason %v", created, err, why)
		}
	}
	t.Run("another schema under the same name is a conflict", func(t *testing.T) {
		t.Parallel()
		refused(t, registration(taking(`{"type":"object"}`)), Conflict)
	})
	t.Run("no schema is invalid", func(t *testing.T) {
		t.Parallel()
		refused(t, registration(func(r *Registration) { r.InputSchema = nil }), Invalid)
	})
	t.Run("a schema that does not compile is invalid at once", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			`{"type":"object","properties":{"n":{"type":"nothing"}}}`, `{"type":"object","properties":{"n":{"pattern":"("}}}`,
			`{"type":"object","properties":{"n":{"$ref":"#/nowhere"}}}`, `{"type":"object","required":["n","n"]}`, `{"type":"object"`,
		} {
			refused(t, registration(taking(text)), Invalid)
		}
	})
}

// TestContractOfDiscovery has the sentence about how long a catalog is kept.
func TestContractOfDiscovery(t *testing.T) {
	t.Parallel()

	t.Run("a tool's description may be relied upon for 300 seconds, or what its option says", func(t *testing.T) {
		t.Parallel()
		c := mustBuild(t, BuildOptions{Overlay: []Override{{Match: "*/B", Options: &configv1.ToolOptions{CacheTtl: durationpb.New(time.Minute)}}}},
			&source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "S/A", "S/B")}})
		if a, b := toolOf(t, c, "s.a").Metadata.CacheTTL, toolOf(t, c, "s.b").Metadata.CacheTTL; a != 300*time.Second || b != time.Minute {
			t.Errorf("%v and %v", a, b)
		}
	})

	t.Run("what was discovered is kept until its time is over, and then refreshed in the background", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			from := &stubSource{load: works("S/A")}
			loads := func() int {
				from.mu.Lock()
				defer from.mu.Unlock()
				return len(from.times)
			}
			live := NewLive([]source.Source{from}, LiveOptions{RefreshEvery: 300 * time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- live.Run(ctx) }()
			synctest.Wait()
			first := live.Current()
			from.set(works("S/A", "S/B"))
			time.Sleep(300*time.Second - time.Nanosecond)
			synctest.Wait()
			if loads() != 1 || live.Current() != first {
				t.Errorf("%d loads before the time is over", loads())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if loads() != 2 || len(live.Current().Tools()) != 2 {
				t.Errorf("%d loads and %d tools when the time is over", loads(), len(live.Current().Tools()))
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("a change is announced, and no change is not", func(t *testing.T) {
		t.Parallel()
		live, from := shop(t, BuildOptions{})
		told := 0
		defer live.OnChange(func(*Catalog, *Catalog) { told++ })()
		if err := live.Refresh(t.Context()); err != nil || told != 0 {
			t.Errorf("told %d times of nothing, %v", told, err)
		}
		from.set(sells("Shop/Get"))
		if err := live.Refresh(t.Context()); err != nil || told != 1 {
			t.Errorf("told %d times of a change, %v", told, err)
		}
		if mustRegister(t, live, registration()); told != 2 {
			t.Errorf("told %d times of a change and a registration", told)
		}
	})
}

// TestContractOfToolVersions has the sentence about where a version comes from.
func TestContractOfToolVersions(t *testing.T) {
	t.Parallel()
	overlay := []Override{{Match: "garden.v1.GardenKeeper/WaterPlant", Options: &configv1.ToolOptions{Version: "3.1.4"}}}
	c := mustBuild(t, BuildOptions{Overlay: overlay}, loadFile(t, bufImage))
	for claim, tt := range map[string]struct{ tool, version string }{
		"a tool has the version of its option":   {"garden.uproot", "1.2.0"},
		"a tool has the version of the overlay":  {"garden_keeper.water_plant", "3.1.4"},
		"a tool that names no version has 1.0.0": {"garden_keeper.get_plant", "1.0.0"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			if got := toolOf(t, c, tt.tool).Version; got != tt.version {
				t.Errorf("%s has version %s", tt.tool, got)
			}
		})
	}
}
