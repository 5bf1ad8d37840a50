// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestTheCatalogFollowsItsBackend changes what a backend reflects. Each of the ways
// in which the sidecar hears of it works, although it looks by itself once a day
// only.
func TestTheCatalogFollowsItsBackend(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(t *testing.T, s *sidecar.Server, backend *peer.Service, again func())
		why    string
	}{
		"POST /refresh": {func(t *testing.T, s *sidecar.Server, _ *peer.Service, _ func()) {
			t.Helper()
			status, body := post(t, s.AdminURL("/refresh"))
			var got struct {
				OK, Changed bool
				Tools       int
				TookMS      float64 `json:"took_ms"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || !got.OK || !got.Changed || got.Tools < 5 || got.TookMS <= 0 {
				t.Errorf("/refresh answers %d %s", status, body)
			}
			if _, body := post(t, s.AdminURL("/refresh")); !strings.Contains(body, `"changed":false`) {
				t.Errorf("a second /refresh answers %s", body)
			}
		}, "POST /refresh"},
		"SIGHUP": {func(t *testing.T, s *sidecar.Server, _ *peer.Service, _ func()) {
			t.Helper()
			s.Signal(t, syscall.SIGHUP)
		}, "SIGHUP"},
		"a restart": {func(_ *testing.T, _ *sidecar.Server, backend *peer.Service, again func()) {
			backend.Stop()
			again()
		}, "reconnected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hidden := new(atomic.Bool)
			hidden.Store(true)
			setup := peer.Setup{Hidden: hidden}
			backend := peer.GRPCSetup(t, setup)
			_, setup.Address, _ = strings.Cut(backend.URL, "://")
			config := filepath.Join(t.TempDir(), "sidecar.yaml")
			if err := os.WriteFile(config, []byte("catalog: {refresh_interval: 24h}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			server := serve(t, "--backend", backend.URL, "--config", config)
			if listed(t, server, "fleet.") {
				t.Fatal("listed before the change")
			}
			hidden.Store(false)
			tt.change(t, server, backend, func() { peer.GRPCSetup(t, setup) })
			testkit.Until(t, "the change is seen", func() bool { return listed(t, server, "fleet.") })
			server.Log(t, "the refresh", func(e sidecar.Entry) bool {
				return e.Message == "catalog refreshed" && e.Fields["reason"] == tt.why && e.Fields["changed"] == true
			})
		})
	}
}

// TestAConnectionThatFlaps makes the backend reflect now and then, not each time.
func TestAConnectionThatFlaps(t *testing.T) {
	t.Parallel()
	const flaps = 20
	address := testkit.Reserved(t)
	backend := peer.GRPCSetup(t, peer.Setup{Address: address})
	server := serve(t, "--backend", backend.URL)
	begun := time.Now()
	for range flaps {
		backend.Stop()
		backend = peer.GRPCSetup(t, peer.Setup{Address: address})
		time.Sleep(100 * time.Millisecond) // how often it flaps
	}
	server.Log(t, "a refresh", func(e sidecar.Entry) bool { return e.Message == "catalog refreshed" })
	most := int(time.Since(begun)/time.Second) + 2
	if loads := strings.Count(server.Text(), `"catalog refreshed"`); loads > most {
		t.Errorf("%d loads in %v", loads, time.Since(begun))
	}
}

// TestRefreshOfABackendThatIsAway says why, keeps the catalog, and bounds what many
// requests cost.
func TestRefreshOfABackendThatIsAway(t *testing.T) {
	t.Parallel()
	backend := peer.GRPCSetup(t, peer.Setup{})
	server := serve(t, "--backend", backend.URL)
	resp, err := http.Get(server.AdminURL("/refresh"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET /refresh is %d", resp.StatusCode)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.AdminURL("/refresh"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	if status, _ := statusAndBody(t, req); status != http.StatusForbidden {
		t.Errorf("a web page may refresh: %d", status)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if status, body := post(t, server.AdminURL("/refresh")); status != http.StatusOK {
				t.Errorf("/refresh answers %d %s", status, body)
			}
		})
	}
	all.Wait()
	if loads := strings.Count(server.Text(), `"catalog refreshed"`); loads > 25 {
		t.Errorf("50 requests at once made %d loads", loads)
	}
	backend.Stop()
	status, body := post(t, server.AdminURL("/refresh"))
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"cause":"connection_refused"`) || !strings.Contains(body, `"fix":"start the backend`) {
		t.Errorf("/refresh without a backend answers %d %s", status, body)
	}
	if !listed(t, server, "lab.echo") {
		t.Error("the catalog from before is gone")
	}
}

// listed reports whether tools/list holds a text.
func listed(t *testing.T, s *sidecar.Server, text string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL("/rpc"), bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	_, body := statusAndBody(t, req)
	return strings.Contains(body, text)
}

func post(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return statusAndBody(t, req)
}

func statusAndBody(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: testkit.Limit(), Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}
