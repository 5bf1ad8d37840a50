// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func webClient(version int) *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(version == 1)
	p.SetUnencryptedHTTP2(version == 2)
	return &http.Client{Transport: &http.Transport{Protocols: p}, Timeout: testkit.Limit()}
}

// oneShot is a client that keeps no connections, for which a drain would wait.
func oneShot() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Limit()}
}

// get asks and returns the answer's body and whether its connection ends.
func get(t *testing.T, c *http.Client, url string) (string, bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		return "", false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s: %v", url, err)
	}
	return string(body), res.Close
}

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testkit.Limit())); err != nil {
		t.Fatal(err)
	}
	return conn
}

func readUntil(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	var got []byte
	for !strings.Contains(string(got), want) {
		buf := make([]byte, 512)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%q, then %v", got, err)
		}
		got = append(got, buf[:n]...)
	}
}
