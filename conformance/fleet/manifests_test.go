// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const manifests = "../../deploy/k8s/components"

// readManifest reads nats.conf as the servers of deploy/k8s do, with the environment of their pods. It reads the process's
// environment, so no other test runs beside it.
func readManifest(t *testing.T, name, key string) *server.Options {
	t.Helper()
	t.Setenv("POD_NAME", name)
	t.Setenv("OUTRIGGER_NKEY", key)
	o, err := server.ProcessConfigFile(filepath.Join(manifests, "nats", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestNATSOfTheManifests: three servers with the configuration of deploy/k8s keep the state of a sidecar that knows its NKey,
// with three copies, and let no one else in.
func TestNATSOfTheManifests(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*server.Options, 3)
	for n := range all {
		o := readManifest(t, fmt.Sprintf("outrigger-nats-%d", n), public)
		if !o.SyncAlways || o.MaxPayload != 8<<20 || o.JetStreamMaxStore < 1<<30 || len(o.Routes) != 3 {
			t.Fatalf("sync_interval: always is %v, max_payload %d, max_file_store %d, %d routes", o.SyncAlways, o.MaxPayload, o.JetStreamMaxStore, len(o.Routes))
		}
		all[n] = o
	}
	ports := freePorts(t, len(all))
	var urls []string
	for n, o := range all {
		running := startNATS(t, func(to *server.Options) {
			dir, port := to.StoreDir, to.Port
			*to = *o
			// What differs outside of a cluster: addresses, and where the files are.
			to.Host, to.Port, to.HTTPPort, to.StoreDir, to.PidFile, to.NoLog, to.NoSigs = "127.0.0.1", port, 0, dir, "", true, true
			to.Cluster.Host, to.Cluster.Port = "127.0.0.1", ports[n]
			to.Routes = routesTo(t, ports)
		})
		urls = append(urls, running.URL())
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	o := state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), NkeyFile: file, Replicas: new(int32(3)), OperationTimeout: durationpb.New(5 * time.Second)}), Sealer: newSealer(t)}
	c := open(t, o)
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", []byte("value"), time.Hour); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "verify finds nothing wrong", func() bool {
		text, ok := findings(t, inspect(t, o))
		return ok && !strings.Contains(text, "warn: ")
	})
	if _, err := state.Inspect(state.Options{Config: configtest.Filled(t, &configv1.State{Url: urls[0]}), Sealer: newSealer(t)}); err == nil {
		t.Error("a client without the NKey was let in")
	}
}

// TestConfigurationOfTheManifests: the sidecar takes the file of deploy/k8s.
func TestConfigurationOfTheManifests(t *testing.T) {
	t.Parallel()
	config, err := filepath.Abs(filepath.Join(manifests, "shared-state", "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// It names servers that only a cluster has, so the command ends where it looks for them.
	cmd := exec.CommandContext(t.Context(), built.binary, "state", "verify", "--config", config, "--state-key", rig.KeyFile(t))
	out, _ := cmd.CombinedOutput()
	if text := string(out); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "/etc/outrigger/nats/user.nk") {
		t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), text)
	}
}

// TestServersOfTheManifests: the release in the manifests is the one that is tested here.
func TestServersOfTheManifests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(manifests, "nats", "nats.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if image := "docker.io/library/nats:" + server.VERSION + "-alpine"; !strings.Contains(string(text), "image: "+image+"\n") {
		t.Errorf("the manifest has another image than %s", image)
	}
}
