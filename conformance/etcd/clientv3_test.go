// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// newClient is etcd's own client: it has a balancer, keeps connections and leases alive, retries,
// and opens watches again where a connection ends.
func newClient(t *testing.T, addr string, change func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{
		Endpoints: []string{addr}, DialTimeout: testkit.Limit(), Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: testkit.Limit(),
	}
	if change != nil {
		change(&config)
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// following reads the events of a watch one by one.
type following struct {
	t      *testing.T
	events <-chan clientv3.WatchResponse
	ahead  []*clientv3.Event
}

func (f *following) next() *clientv3.Event {
	f.t.Helper()
	for len(f.ahead) == 0 {
		res := testkit.Find(f.t, "an event", f.events, func(clientv3.WatchResponse) bool { return true })
		if res.Err() != nil {
			f.t.Fatalf("the watch ended: %v", res.Err())
		}
		f.ahead = res.Events
	}
	e := f.ahead[0]
	f.ahead = f.ahead[1:]
	return e
}

// values reads so many puts.
func (f *following) values(n int) []string {
	f.t.Helper()
	var out []string
	for range n {
		e := f.next()
		if e.Type != mvccpb.PUT {
			f.t.Fatalf("want a put: %v", e)
		}
		out = append(out, string(e.Kv.Value))
	}
	return out
}

// TestClient has etcd's own client do through the sidecar what its users do with it.
func TestClient(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	client := newClient(t, server.Addr(), nil)
	for name, do := range map[string]func(*testing.T, *clientv3.Client){
		"keys": clientKeys, "watches": clientWatches, "leases": clientLeases, "elections": clientElections, "snapshots": clientSnapshots,
	} {
		t.Run(name, func(t *testing.T) { do(t, client) })
	}
}

func clientKeys(t *testing.T, c *clientv3.Client) {
	ctx := bounded(t)
	const value = "\x00\xff\xfe not UTF-8"
	if _, err := c.Put(ctx, "keys/a", value); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(ctx, "keys/", clientv3.WithPrefix())
	if err != nil || got.Count != 1 || string(got.Kvs[0].Value) != value {
		t.Fatalf("get: %v %v", got, err)
	}
	// Optimistic locking, as Kubernetes writes.
	for revision, want := range map[int64]bool{got.Kvs[0].ModRevision: true, got.Kvs[0].ModRevision - 1: false} {
		res, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("keys/a"), "=", revision)).
			Then(clientv3.OpGet("keys/a")).Else(clientv3.OpPut("keys/lost", "")).Commit()
		if err != nil || res.Succeeded != want {
			t.Errorf("at revision %d: %v %v", revision, res, err)
		}
	}
	// The client tells etcd's errors apart by code and message.
	if _, err := c.Put(ctx, "", ""); !errors.Is(err, rpctypes.ErrEmptyKey) {
		t.Errorf("no key: %v", err)
	}
	if _, err := c.Put(ctx, "keys/leased", "", clientv3.WithLease(1<<53+1)); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("an unknown lease: %v", err)
	}
	if _, err := c.Get(ctx, "keys/a", clientv3.WithRev(1<<60)); !errors.Is(err, rpctypes.ErrFutureRev) {
		t.Errorf("the future: %v", err)
	}
}

func clientWatches(t *testing.T, c *clientv3.Client) {
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	// The client has all of these share a stream, but for the one that wants a leader.
	const watches, puts = 20, 50
	var all []*following
	for range watches {
		all = append(all, &following{t: t, events: c.Watch(ctx, "watches/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())})
	}
	all = append(all, &following{t: t, events: c.Watch(clientv3.WithRequireLeader(ctx), "watches/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())})
	for _, f := range all {
		if res := <-f.events; !res.Created {
			t.Fatalf("created: %+v", res)
		}
	}
	var want []string
	for i := range puts {
		want = append(want, fmt.Sprint(i))
		if _, err := c.Put(ctx, fmt.Sprintf("watches/%d", i%3), want[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range all {
		if diff := cmp.Diff(want, f.values(puts)); diff != "" {
			t.Errorf("watch %d (-want +got):\n%s", i, diff)
		}
	}
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	for res := range all[0].events {
		if res.IsProgressNotify() {
			break
		}
		t.Errorf("more than was put: %+v", res)
	}
}

func clientLeases(t *testing.T, c *clientv3.Client) {
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	lease, err := c.Grant(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.KeepAlive(ctx, lease.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "leases/a", "", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	// The client renews a lease each time a third of it is over: this is longer than it lives.
	for range 4 {
		if got := <-kept; got == nil || got.ID != lease.ID || got.TTL != 2 {
			t.Fatalf("kept alive: %v", got)
		}
	}
	left, err := c.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
	if err != nil || left.TTL < 1 || len(left.Keys) != 1 {
		t.Errorf("time to live: %v %v", left, err)
	}
	// The key goes with the lease, and the client learns that there is no more to renew.
	gone := &following{t: t, events: c.Watch(ctx, "leases/a", clientv3.WithCreatedNotify())}
	<-gone.events
	if _, err := c.Revoke(ctx, lease.ID); err != nil {
		t.Fatal(err)
	}
	if got := gone.next(); got.Type != mvccpb.DELETE {
		t.Errorf("the key of a revoked lease: %v", got)
	}
	for range kept { // it ends
	}
	if _, err := c.KeepAliveOnce(ctx, lease.ID); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("renew a revoked lease: %v", err)
	}
}

func clientElections(t *testing.T, c *clientv3.Client) {
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	candidate := func() *concurrency.Election {
		t.Helper()
		session, err := concurrency.NewSession(c, concurrency.WithTTL(30))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return concurrency.NewElection(session, "elections")
	}
	first, second := candidate(), candidate()
	leaders := first.Observe(ctx)
	observe := func(want string) {
		t.Helper()
		if got := <-leaders; len(got.Kvs) != 1 || string(got.Kvs[0].Value) != want {
			t.Fatalf("observed %v, want %s", got, want)
		}
	}
	if err := first.Campaign(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	observe("first")
	if err := first.Proclaim(ctx, "first again"); err != nil {
		t.Fatal(err)
	}
	observe("first again")
	elected := make(chan error, 1)
	go func() { elected <- second.Campaign(ctx, "second") }()
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-elected; err != nil {
		t.Fatal(err)
	}
	observe("second")
	if got, err := second.Leader(ctx); err != nil || string(got.Kvs[0].Value) != "second" {
		t.Errorf("the leader: %v %v", got, err)
	}
}

// clientSnapshots reads a server's stream of a file; the client compares its end with a sum.
func clientSnapshots(t *testing.T, c *clientv3.Client) {
	ctx := bounded(t)
	for i := range 8 {
		if _, err := c.Put(ctx, fmt.Sprintf("snapshots/%d", i), strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Snapshot.Close() }()
	// The sum is behind the file, which consists of blocks of 512 bytes.
	if n, err := io.Copy(io.Discard, res.Snapshot); err != nil || n < 8<<20 || n%512 != 32 {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// TestClientSurvives ends the sidecar, and then etcd, while a client watches and keeps a lease
// alive. The client goes on by itself, and gets every event once and in order.
func TestClientSurvives(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	// Streams that last as long as their callers are ended at the end of the grace period.
	server := e.serve(t, "--grace", "100ms")
	listen := server.Addr()
	ctx := bounded(t)
	client, direct := newClient(t, listen, nil), newClient(t, e.addr, nil)
	lease, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := client.KeepAlive(ctx, lease.ID)
	if err != nil {
		t.Fatal(err)
	}
	<-kept
	f := &following{t: t, events: client.Watch(ctx, "survives")}
	n := 0
	puts := func(through *clientv3.Client) {
		t.Helper()
		for range 20 {
			n++
			testkit.Until(t, "a put", func() bool {
				// etcd does not say whether what it did not answer was done; it is put again only where it was not.
				_, err := through.Txn(ctx).If(clientv3.Compare(clientv3.Value("survives"), "!=", fmt.Sprint(n))).
					Then(clientv3.OpPut("survives", fmt.Sprint(n))).Commit()
				return err == nil
			})
		}
	}
	wanted := func() {
		t.Helper()
		for i := n - 19; i <= n; i++ {
			if got := f.values(1); got[0] != fmt.Sprint(i) {
				t.Fatalf("event %v, want %d", got, i)
			}
		}
	}
	if _, err := direct.Put(ctx, "survives", "0"); err != nil {
		t.Fatal(err)
	}
	f.values(1)
	puts(client)
	wanted()

	server.Signal(t, syscall.SIGTERM)
	if code := server.Wait(t); code != 0 {
		t.Errorf("the sidecar ends with %d", code)
	}
	puts(direct) // no one hears of these now
	_ = e.serve(t, "--listen", listen, "--grace", "100ms")
	wanted()
	puts(client)
	wanted()

	e.stop(syscall.SIGKILL)
	e.start(t)
	puts(client)
	wanted()

	// The lease is older than the process that knows it, and is still renewed.
	if got, err := client.KeepAliveOnce(ctx, lease.ID); err != nil || got.TTL != 60 {
		t.Errorf("keep alive: %v %v", got, err)
	}
	select {
	case got, ok := <-kept:
		if !ok {
			t.Errorf("the lease is no longer renewed: %v", got)
		}
	default:
	}
}
