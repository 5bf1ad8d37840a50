// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// freePorts are ports of loopback on which servers of this test can listen, and no one else.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		addr, err := net.ResolveTCPAddr("tcp", testkit.Reserved(t))
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, addr.Port)
	}
	return ports
}

// routesTo are the URLs of servers of a cluster.
func routesTo(t *testing.T, ports []int) []*url.URL {
	t.Helper()
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	}
	return routes
}

// startCluster starts three servers that know each other.
func startCluster(t *testing.T) []*natsServer {
	t.Helper()
	ports := freePorts(t, 3)
	routes := routesTo(t, ports)
	var all []*natsServer
	for i, port := range ports {
		all = append(all, startNATS(t, func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", i)
			o.Cluster = server.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}))
	}
	return all
}

// TestAServerOfThreeIsLost: with three copies, nothing acknowledged is lost with one
// server, whichever leads, and writes go on.
func TestAServerOfThreeIsLost(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	var urls []string
	for _, n := range cluster {
		urls = append(urls, n.URL())
	}
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(3))})})
	b := c.Bucket(things())
	healthy(t, c)
	revision, err := b.Create(t.Context(), "k", []byte("one"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), "k", []byte("stale"), revision+1, time.Hour); !errors.Is(err, state.ErrConflict) {
		t.Errorf("an update out of turn in a cluster: %v", err)
	}
	s, err := cluster[0].admin().Stream(t.Context(), "KV_outrigger_default_things")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Cluster == nil || len(info.Cluster.Replicas) != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	for _, n := range cluster {
		if n.options.ServerName == info.Cluster.Leader {
			n.stop()
		}
	}
	testkit.Until(t, "the value is read, and written again", func() bool {
		e, err := b.Get(t.Context(), "k")
		if err != nil {
			if !errors.Is(err, state.ErrUnavailable) {
				t.Errorf("while a leader is elected: %v", err)
			}
			return false
		}
		_, err = b.Update(t.Context(), "k", []byte("two"), e.Revision, time.Hour)
		return err == nil
	})
	healthy(t, c)
}
