// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// watching is a Watch stream in a test's own hands.
type watching struct {
	t      *testing.T
	stream etcdserverpb.Watch_WatchClient
}

// send sends a request of any kind.
func (w *watching) send(req *etcdserverpb.WatchRequest) {
	w.t.Helper()
	if err := w.stream.Send(req); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watching) create(req *etcdserverpb.WatchCreateRequest) {
	w.t.Helper()
	w.send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: req}})
}

func (w *watching) cancel(id int64) {
	w.t.Helper()
	w.send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{
		CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: id},
	}})
}

func (w *watching) next() *etcdserverpb.WatchResponse {
	w.t.Helper()
	res, err := w.stream.Recv()
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// events reads until so many events have come, as "watch: type key=value", and checks that
// their revisions only grow.
func (w *watching) events(n int) []string {
	w.t.Helper()
	var out []string
	last := map[int64]int64{}
	for len(out) < n {
		res := w.next()
		if res.Created || res.Canceled || len(res.Events) == 0 {
			w.t.Fatalf("want events: %v", res)
		}
		for _, e := range res.Events {
			if e.Kv.ModRevision <= last[res.WatchId] {
				w.t.Errorf("revision %d after %d", e.Kv.ModRevision, last[res.WatchId])
			}
			last[res.WatchId] = e.Kv.ModRevision
			out = append(out, fmt.Sprintf("%d: %v %s=%s", res.WatchId, e.Type, e.Kv.Key, e.Kv.Value))
		}
	}
	return out
}

func put(ctx context.Context, t *testing.T, kv etcdserverpb.KVClient, key, value string) *etcdserverpb.PutResponse {
	t.Helper()
	res, err := kv.Put(ctx, &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestWatch uses all that etcd's Watch can do over one stream of the generated client, while
// somebody else writes to etcd itself.
func TestWatch(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	ctx, cancel := context.WithCancel(bounded(t))
	kv := etcdserverpb.NewKVClient(dial(t, e.addr))
	stream, err := etcdserverpb.NewWatchClient(dial(t, server.Addr())).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, stream: stream}
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("w/"), RangeEnd: []byte("w0")})
	if res := w.next(); !res.Created || res.Canceled || res.WatchId != 0 {
		t.Fatalf("created: %v", res)
	}

	const puts = 200
	var want []string
	for i := range puts {
		key, value := fmt.Sprintf("w/%d", i%7), fmt.Sprint(i)
		put(ctx, t, kv, key, value)
		want = append(want, fmt.Sprintf("0: PUT %s=%s", key, value))
	}
	if diff := cmp.Diff(want, w.events(puts)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	w.send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
	// Etcd answers about all watches of the stream at once, which are -1.
	if res := w.next(); res.WatchId != -1 || len(res.Events) != 0 || res.Header.Revision != puts+1 {
		t.Errorf("progress: %v", res)
	}

	// A second watch over the same stream begins in the past, and wants the values that were replaced.
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("w/3"), WatchId: 7, StartRevision: puts - 1, PrevKv: true})
	if res := w.next(); !res.Created || res.WatchId != 7 {
		t.Fatalf("created: %v", res)
	}
	past := w.next()
	if len(past.Events) != 1 || past.WatchId != 7 || string(past.Events[0].Kv.Value) != "199" || string(past.Events[0].PrevKv.Value) != "192" {
		t.Errorf("the past: %v", past)
	}
	w.cancel(7)
	if res := w.next(); !res.Canceled || res.WatchId != 7 {
		t.Errorf("cancelled: %v", res)
	}
	if _, err := kv.DeleteRange(ctx, &etcdserverpb.DeleteRangeRequest{Key: []byte("w/3")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0: DELETE w/3="}, w.events(1)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}

	// What was compacted cannot be watched.
	if _, err := kv.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: puts}); err != nil {
		t.Fatal(err)
	}
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("w/3"), WatchId: 9, StartRevision: 2})
	if res := w.next(); !res.Created {
		t.Errorf("created: %v", res)
	}
	if res := w.next(); !res.Canceled || res.CompactRevision != puts {
		t.Errorf("compacted: %v", res)
	}

	// A half-close ends no watch: etcd goes on until the RPC ends.
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	put(ctx, t, kv, "w/last", "still here")
	if diff := cmp.Diff([]string{"0: PUT w/last=still here"}, w.events(1)); diff != "" {
		t.Errorf("after the half-close (-want +got):\n%s", diff)
	}
	const watchers = "etcd_debugging_mvcc_watcher_total"
	if n := e.metric(t, watchers); n == 0 {
		t.Error("no watchers before the end")
	}
	cancel()
	if res, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("at the end: %v %v", res, err)
	}
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, watchers) == 0 })
}

// TestManyWatches opens more streams over one connection than servers of HTTP/2 usually allow.
// Etcd's generated client opens one for each Watch, and waits without a word where it may not.
func TestManyWatches(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	ctx, cancel := context.WithCancel(bounded(t))
	conn := dial(t, server.Addr())
	const watches, watchers = 400, "etcd_debugging_mvcc_watcher_total"
	var all []*watching
	for range watches {
		stream, err := etcdserverpb.NewWatchClient(conn).Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		w := &watching{t: t, stream: stream}
		w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("many")})
		if res := w.next(); !res.Created {
			t.Fatalf("created: %v", res)
		}
		all = append(all, w)
	}
	put(ctx, t, etcdserverpb.NewKVClient(conn), "many", "seen")
	for i, w := range all {
		if diff := cmp.Diff([]string{"0: PUT many=seen"}, w.events(1)); diff != "" {
			t.Errorf("watch %d (-want +got):\n%s", i, diff)
		}
	}
	if n := e.metric(t, watchers); n != watches {
		t.Errorf("etcd has %v watchers, want %d", n, watches)
	}
	cancel()
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, watchers) == 0 })
}

// TestLeaseKeepAlive renews leases over one stream, each when the one before was answered.
func TestLeaseKeepAlive(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	ctx := bounded(t)
	leases := etcdserverpb.NewLeaseClient(dial(t, server.Addr()))
	// Neither a float64 nor an int32 has room for these.
	const first, second, unknown = 1<<53 + 1, 1<<62 + 3, 1<<61 + 5
	for _, id := range []int64{first, second} {
		got, err := leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: id, TTL: 60})
		if err != nil || got.ID != id {
			t.Fatalf("grant %d: %v %v", id, got, err)
		}
	}
	stream, err := leases.LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keepAlive := func(id int64) int64 {
		t.Helper()
		if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || got.ID != id {
			t.Fatalf("keep %d alive: %v %v", id, got, err)
		}
		return got.TTL
	}
	for range 20 {
		if one, two := keepAlive(first), keepAlive(second); one != 60 || two != 60 {
			t.Errorf("kept alive for %d and %d seconds", one, two)
		}
	}
	if ttl := keepAlive(unknown); ttl != 0 {
		t.Errorf("an unknown lease lives for %d seconds", ttl)
	}
	if _, err := leases.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: second}); err != nil {
		t.Fatal(err)
	}
	if one, two := keepAlive(first), keepAlive(second); one != 60 || two != 0 {
		t.Errorf("kept alive for %d and, revoked, %d seconds", one, two)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the half-close: %v %v", got, err)
	}
}
