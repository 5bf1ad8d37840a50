// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLargeAnswers asks etcd for more than the sidecar lets pass in one message. Etcd itself has
// no such limit, and neither has its client.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	config := filepath.Join(t.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(config, []byte("backend: {max_receive_bytes: 32MiB}\nlimits: {max_result_bytes: 32MiB}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, raised := e.serve(t), e.serve(t, "--config", config)
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	direct := newClient(t, e.addr, nil)
	const keys = 12
	value := bytes.Repeat([]byte{0xfe}, 1<<20)
	for i := range keys {
		if _, err := direct.Put(ctx, fmt.Sprintf("large/%d", i), string(value)); err != nil {
			t.Fatal(err)
		}
	}
	prefix, past := clientv3.WithPrefix(), clientv3.WithRev(1)

	limited := newClient(t, server.Addr(), nil)
	want := status.New(codes.ResourceExhausted, "Result too large: the backend's response exceeds 4194304 bytes (backend.max_receive_bytes)").String()
	if _, err := limited.Get(ctx, "large/", prefix); status.Convert(err).String() != want {
		t.Errorf("a range beyond the limit: %v", err)
	}
	if res := <-limited.Watch(ctx, "large/", prefix, past); status.Convert(res.Err()).String() != want {
		t.Errorf("events beyond the limit: %v", res.Err())
	}
	// Etcd splits a message where its client asks it to. The clients are others, as watches of one share their stream.
	for name, watch := range map[string]clientv3.WatchChan{
		"split":            newClient(t, server.Addr(), nil).Watch(ctx, "large/", prefix, past, clientv3.WithFragment()),
		"the limit raised": newClient(t, raised.Addr(), nil).Watch(ctx, "large/", prefix, past),
	} {
		seen := &following{t: t, events: watch}
		for i := range keys {
			if got := seen.next(); !bytes.Equal(got.Kv.Value, value) {
				t.Errorf("%s: event %d has %d bytes", name, i, len(got.Kv.Value))
			}
		}
	}
	if got, err := newClient(t, raised.Addr(), nil).Get(ctx, "large/", prefix); err != nil || len(got.Kvs) != keys {
		t.Errorf("a range below the raised limit: %v", err)
	}
}
