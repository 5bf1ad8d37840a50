// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAccess has etcd know its callers by the token that its client logs in for. The sidecar
// passes it on where the operator says so, and etcd decides.
func TestAccess(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	passing := e.serve(t, "--metadata-in", "token,hasleader")
	keeping := e.serve(t)
	ctx := bounded(t)
	root := newClient(t, e.addr, nil)
	for _, step := range []func() error{
		func() error { _, err := root.Put(ctx, "public/a", "seen"); return err },
		func() error { _, err := root.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, "reader", "public/", clientv3.GetPrefixRangeEnd("public/"), clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := root.UserAdd(ctx, "ann", "correct"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "ann", "reader"); return err },
		func() error { _, err := root.UserAdd(ctx, "root", "root's"); return err },
		func() error { _, err := root.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := root.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	ann := func(c *clientv3.Config) { c.Username, c.Password = "ann", "correct" }

	client := newClient(t, passing.Addr(), ann)
	if got, err := client.Get(ctx, "public/a"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "seen" {
		t.Errorf("what she may read: %v %v", got, err)
	}
	if _, err := client.Get(ctx, "secret/a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("what she may not read: %v", err)
	}
	if _, err := client.Put(ctx, "public/a", "changed"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("what she may not write: %v", err)
	}
	watches, cancel := context.WithCancel(ctx)
	defer cancel()
	if res := <-client.Watch(watches, "secret/a"); res.Err() == nil || !strings.Contains(res.Err().Error(), rpctypes.ErrPermissionDenied.Error()) {
		t.Errorf("what she may not watch: %v", res.Err())
	}
	seen := &following{t: t, events: client.Watch(watches, "public/", clientv3.WithPrefix(), clientv3.WithRev(1))}
	if got := seen.values(1); got[0] != "seen" {
		t.Errorf("what she may watch: %v", got)
	}

	// A stream that etcd refuses ends with etcd's status, as directly.
	for _, user := range []func(*clientv3.Config){nil, ann} {
		_, want := snapshot(ctx, newClient(t, e.addr, user))
		if _, err := snapshot(ctx, newClient(t, passing.Addr(), user)); want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("a snapshot: %v, directly %v", err, want)
		}
	}

	// Without her token etcd does not know her, and says so; her client would log in and try again for a while.
	once := func(c *clientv3.Config) { ann(c); c.MaxUnaryRetries = 1 }
	if _, err := newClient(t, keeping.Addr(), once).Get(ctx, "public/a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("without the token: %v", err)
	}
	_, err := clientv3.New(clientv3.Config{Endpoints: []string{passing.Addr()}, DialTimeout: testkit.Limit(), Logger: zap.NewNop(), Username: "ann", Password: "wrong"})
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("a wrong password: %v", err)
	}
}

// snapshot reads the whole of etcd's data.
func snapshot(ctx context.Context, c *clientv3.Client) (int64, error) {
	r, err := c.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	return io.Copy(io.Discard, r)
}
