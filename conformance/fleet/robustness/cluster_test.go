// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	servers = 3
	// diskBytes is the size of the disk of each server.
	diskBytes = 256 << 20
)

// natsServer is one process of the cluster, which comes back at the same addresses with the same disk.
type natsServer struct {
	t            *testing.T
	name         string
	client       string // where it listens, without a link
	cluster      string
	config, disk string
	log          string
	hasDisk      bool // its own file system
	read         int  // of the log
	// routes are its ways to the others.
	routes map[int]*link

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	stopped bool // by SIGSTOP
}

// natsCluster is three of them.
type natsCluster struct {
	t   *testing.T
	all []*natsServer
}

// loopback is where everything listens that runs on this machine.
const loopback = "127.0.0.1"

// freeAddress returns an address of a host that no one listens at.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	if host == loopback {
		return testkit.Reserved(t)
	}
	return net.JoinHostPort(host, strconv.Itoa(rig.FreePort(t, host)))
}

// startCluster starts three servers whose clients reach them at a host.
func startCluster(t *testing.T, host string) *natsCluster {
	t.Helper()
	c := &natsCluster{t: t}
	for i := range servers {
		s := &natsServer{t: t, name: fmt.Sprintf("n%d", i), client: freeAddress(t, host), cluster: freeAddress(t, loopback), routes: map[int]*link{}}
		s.disk, s.hasDisk = mountDisk(t)
		c.all = append(c.all, s)
	}
	for i, s := range c.all {
		var routes []string
		for j, other := range c.all {
			if i != j {
				s.routes[j] = newLink(t, s.name+" to "+other.name, other.cluster)
				routes = append(routes, "nats://"+s.routes[j].addr)
			}
		}
		// Clients and servers are told of no address that would lead around the links: no one listens at port 1.
		s.config = filepath.Join(t.TempDir(), s.name+".conf")
		s.log = filepath.Join(filepath.Dir(s.config), s.name+".log")
		text := fmt.Sprintf(`server_name: %s
listen: %q
max_payload: 8MB
jetstream { store_dir: %q, max_file_store: 4GB, max_memory_store: 64MB, sync_interval: always }
cluster { name: fleet, listen: %q, no_advertise: true, cluster_advertise: "127.0.0.1:1", pool_size: -1, routes: [%s] }
logfile: %q
`, s.name, s.client, s.disk, s.cluster, strings.Join(routes, ", "), s.log)
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		t.Cleanup(s.end)
	}
	testkit.Until(t, "the cluster has a leader", func() bool {
		return c.admin(func(ctx context.Context, _ *nats.Conn, js jetstream.JetStream) error {
			_, err := js.AccountInfo(ctx)
			return err
		}) == nil
	})
	return c
}

// mountDisk returns a folder with its own file system, so that it can be full; a plain folder where this
// process may not mount one.
func mountDisk(t *testing.T) (folder string, mounted bool) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskBytes)); err != nil {
		t.Logf("no disk can be full here: mount: %v", err)
		return folder, false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return folder, true
}

// start starts the process, if it does not run.
func (s *natsServer) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return
	}
	cmd := exec.Command(built.nats, "-c", s.config)
	if err := cmd.Start(); err != nil {
		s.t.Errorf("%s: %v", s.name, err)
		return
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s.cmd, s.ended = cmd, ended
}

// signal sends a signal, and waits for the end of the process if that is what it is for.
func (s *natsServer) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	switch sig {
	case syscall.SIGSTOP:
		s.stopped = true
	case syscall.SIGCONT:
		s.stopped = false
	default:
		if s.stopped {
			_ = s.cmd.Process.Signal(syscall.SIGCONT)
			s.stopped = false
		}
		select {
		case <-s.ended:
		case <-time.After(testkit.Limit()):
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
		s.cmd = nil
	}
}

func (s *natsServer) end() { s.signal(syscall.SIGKILL) }

// runs reports whether the process runs and is not stopped.
func (s *natsServer) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && !s.stopped
}

// filler is the file that takes the room on a disk.
func (s *natsServer) filler() string { return filepath.Join(s.disk, "filler") }

// fill takes all room on the disk.
func (s *natsServer) fill() error {
	f, err := os.OpenFile(s.filler(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return nil
			}
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
}

// isShort reports whether the server has said since the last call that it found no room.
func (s *natsServer) isShort() bool {
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Error(err)
		return false
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may not be all there yet
	news := text[min(s.read, len(text)):]
	s.read = len(text)
	return bytes.Contains(news, []byte("no space left"))
}

// empty gives the room back.
func (s *natsServer) empty() { _ = os.Remove(s.filler()) }

// admin does something as an operator, at a server that runs.
func (c *natsCluster) admin(do func(context.Context, *nats.Conn, jetstream.JetStream) error) error {
	var urls []string
	for _, s := range c.all {
		if s.runs() {
			urls = append(urls, "nats://"+s.client)
		}
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.Timeout(2*time.Second))
	if err != nil {
		return err //nolint:wrapcheck // the caller tries again
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err //nolint:wrapcheck // the caller tries again
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return do(ctx, nc, js)
}

// leader returns the server that leads a stream; nil if no one says.
func (c *natsCluster) leader(stream string) *natsServer {
	var name string
	_ = c.admin(func(ctx context.Context, _ *nats.Conn, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err == nil && s.CachedInfo().Cluster != nil {
			name = s.CachedInfo().Cluster.Leader
		}
		return err //nolint:wrapcheck // no one reads it
	})
	for _, s := range c.all {
		if s.name == name {
			return s
		}
	}
	return nil
}

// stepDown has the leader of a stream give up its place.
func (c *natsCluster) stepDown(stream string) error {
	return c.admin(func(ctx context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
		_, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return err //nolint:wrapcheck // the caller logs it
	})
}

// whole waits until every stream has all its copies, and each is up to date.
func (c *natsCluster) whole() {
	c.t.Helper()
	testkit.Try(c.t, "all streams have all copies", func() error {
		return c.admin(func(ctx context.Context, _ *nats.Conn, js jetstream.JetStream) error {
			list := js.ListStreams(ctx)
			for info := range list.Info() {
				if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != servers-1 {
					return fmt.Errorf("%s: %+v", info.Config.Name, info.Cluster)
				}
				for _, peer := range info.Cluster.Replicas {
					if !peer.Current || peer.Offline {
						return fmt.Errorf("%s: %+v", info.Config.Name, peer)
					}
				}
			}
			return list.Err() //nolint:wrapcheck // it is printed
		})
	})
}
