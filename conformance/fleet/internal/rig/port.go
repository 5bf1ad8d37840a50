// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports from which FreePort chooses: below those that Linux, by default, gives to connections. A connection could otherwise
// take the port before the server that it is for listens on it.
const (
	firstPort = 20000
	lastPort  = 32767
)

// FreePort returns a port of a host that no one listens on, for a server that has to be told its port before it starts.
func FreePort(t *testing.T, host string) int {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a port is no secret
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
		last = err
	}
	t.Fatalf("no free port: %v", last)
	return 0
}
