// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	replicas = 3
	// lease is longer than most faults, and shorter than some.
	lease  = 4 * time.Second
	config = `
timeout: 2m
limits: {drain_grace: 2s, max_tasks: 100000, task_ttl: 2h}
state: {lease: 4s, replicas: 3, event_ttl: 2h, max_task_bytes: 67108864}
tools:
  - method: fleet.v1.Shop/Look
    tool: {task_support: optional}
  - method: fleet.v1.Shop/Pay
    tool: {task_support: optional}
  - method: fleet.v1.Shop/Refund
    tool: {destructive: true}
`
)

// fleet is the deployment with what it needs. Its replicas are started and ended by the goroutine of the test alone.
type fleet struct {
	t    *testing.T
	nats *natsCluster
	till *till
	// links are the ways of a replica to the servers.
	links [replicas][servers]*link
	// main gives connections to the listeners of callers, admin to those of operators.
	main, admin *balancer

	files struct{ config, keys string }
	mu    sync.Mutex
	all   [replicas]*sidecar.Server // nil while it does not run
	// pods are the addresses of replicas that are pods, which others start and end.
	pods []string
	// ever are all processes that ran, by name.
	ever map[string]*sidecar.Server
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, nats: startCluster(t, loopback), till: startTill(t, loopback), main: startBalancer(t, replicas), admin: startBalancer(t, replicas), ever: map[string]*sidecar.Server{}}
	f.files.config, f.files.keys = rig.Write(t, "sidecar.yaml", []byte(config)), rig.KeyFile(t)
	for i := range replicas {
		for j, s := range f.nats.all {
			f.links[i][j] = newLink(t, fmt.Sprintf("replica %d to %s", i, s.name), s.client)
		}
	}
	t.Cleanup(f.keep)
	for i := range replicas {
		f.start(i)
	}
	f.healthy()
	f.nats.whole()
	return f
}

// start starts a replica and gives it to the balancers.
func (f *fleet) start(i int) {
	f.t.Helper()
	f.launch(i)
	f.publish(i)
}

// publish gives a replica that runs to the balancers, withdraw takes it from them.
func (f *fleet) publish(i int) {
	s := f.replica(i)
	f.main.set(i, s.Addr())
	f.admin.set(i, strings.TrimPrefix(s.AdminURL(""), "http://"))
}

func (f *fleet) withdraw(i int) {
	f.main.set(i, "")
	f.admin.set(i, "")
}

// launch starts a replica.
func (f *fleet) launch(i int) {
	f.t.Helper()
	var urls []string
	for _, l := range f.links[i] {
		urls = append(urls, "nats://"+l.addr)
	}
	s := sidecar.Serve(f.t, built.sidecar, "--backend", f.till.url, "--descriptors", f.till.descriptors, "--config", f.files.config,
		"--destructive", "confirm", "--state", strings.Join(urls, ","), "--state-key", f.files.keys)
	f.mu.Lock()
	f.all[i] = s
	f.ever[fmt.Sprintf("replica-%d-%03d", i, len(f.ever))] = s
	f.mu.Unlock()
}

// end ends a replica by a signal and waits for it.
func (f *fleet) end(i int, sig syscall.Signal) {
	f.t.Helper()
	s := f.replica(i)
	if sig == syscall.SIGKILL {
		s.ExpectExit(-1)
	}
	s.Signal(f.t, sig)
	s.Wait(f.t)
	f.mu.Lock()
	f.all[i] = nil
	f.mu.Unlock()
	f.withdraw(i)
}

func (f *fleet) replica(i int) *sidecar.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[i]
}

// callersURL is where callers reach one replica that runs, operatorsURL where operators do.
func (f *fleet) callersURL(i int) string {
	if len(f.pods) > 0 {
		return "http://" + net.JoinHostPort(f.pods[i], callersPort)
	}
	return f.replica(i).URL("")
}

func (f *fleet) operatorsURL(i int) string {
	if len(f.pods) > 0 {
		return "http://" + net.JoinHostPort(f.pods[i], operatorsPort)
	}
	return f.replica(i).AdminURL("")
}

// probe asks one replica for a path of its admin listener; nothing comes back from one that does not run.
func (f *fleet) probe(i int, path string) (int, string) {
	s := f.replica(i)
	if s == nil {
		return 0, ""
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.AdminURL(path), nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// healthy waits until every replica can use its state.
func (f *fleet) healthy() {
	f.t.Helper()
	for i := range replicas {
		testkit.Try(f.t, fmt.Sprintf("replica %d is ready, and not degraded", i), func() error {
			code, text := f.probe(i, "/readyz?verbose")
			if code != http.StatusOK || strings.Contains(text, "degraded") {
				return fmt.Errorf("%d %s", code, text)
			}
			return nil
		})
	}
}

// degraded waits until a replica says that it is ready without its state.
func (f *fleet) degraded(i int) {
	f.t.Helper()
	testkit.Until(f.t, fmt.Sprintf("replica %d is ready, and degraded", i), func() bool {
		code, text := f.probe(i, "/readyz")
		return code == http.StatusOK && strings.Contains(text, "degraded: state")
	})
}

// keep writes the logs of all replicas and servers down, if the test has failed.
func (f *fleet) keep() {
	if !f.t.Failed() {
		return
	}
	for name, s := range f.ever {
		if err := os.WriteFile(filepath.Join(folder(f.t), name+".log"), []byte(s.Text()), 0o600); err != nil {
			f.t.Error(err)
		}
	}
	for _, s := range f.nats.all {
		text, err := os.ReadFile(s.log)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder(f.t), s.name+".log"), text, 0o600)
		}
		if err != nil {
			f.t.Error(err)
		}
	}
}
