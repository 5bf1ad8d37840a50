// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// TestExamplesOfTheDemoAreTrue calls every example of the example service: what its specification pages promise is what
// a caller gets. Results with times or addresses in them are compared by their members only.
func TestExamplesOfTheDemoAreTrue(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults(config.Once)
	cfg.Demo, cfg.Trust = true, new("trusted")
	varies := []string{"fleet.place_order", "fleet.watch_vehicles", "lab.inspect", "lab.sleep"}
	// In the order of the names, assign_order would change what find_orders finds: each tool gets its own service.
	for _, name := range demoTools(t, cfg) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := server.New(t.Context(), cfg, server.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = a.Close(t.Context()) }()
			cat, err := a.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tool, _ := cat.Lookup(name)
			if len(tool.Examples) == 0 {
				t.Error("there is no example")
			}
			for _, example := range tool.Examples {
				resp := a.Bridge().Handle(t.Context(), &bridge.Request{
					Op: bridge.OpCall, Origin: a.Bridge().Flights().NewOrigin(), Tool: name,
					Arguments: bridge.Payload{Bytes: example.Arguments}, Caller: "cli", Transport: "cli", Route: "call",
				})
				if example.Status != "" {
					if resp.Err == nil || !strings.EqualFold(resp.Err.BackendCode, example.Status) {
						t.Errorf("%s: got %v, want %s", example.Name, resp.Err, example.Status)
					}
					continue
				}
				if resp.Err != nil {
					t.Errorf("%s: %v", example.Name, resp.Err)
					continue
				}
				want, got := members(t, example.Data), members(t, resp.Result.Bytes)
				if slices.Contains(varies, name) {
					if len(got) < len(want) {
						t.Errorf("%s: got %s", example.Name, resp.Result.Bytes)
					}
					continue
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-declared +got):\n%s", example.Name, diff)
				}
			}
		})
	}
}

// demoTools are the names of the example service's tools that can be called.
func demoTools(t *testing.T, cfg *configv1.Config) []string {
	t.Helper()
	a, err := server.New(t.Context(), cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close(t.Context()) }()
	cat, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range cat.Tools() {
		if !tool.Method.ClientStreaming {
			names = append(names, tool.Name)
		}
	}
	return names
}

func members(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}
