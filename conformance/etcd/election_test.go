// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// campaigning is the generated client of an election that bears the test's name.
type campaigning struct {
	v3electionpb.ElectionClient

	t      *testing.T
	leases etcdserverpb.LeaseClient
	name   []byte
}

// campaign waits until a candidate leads.
func (c *campaigning) campaign(ctx context.Context, value string) (*v3electionpb.LeaderKey, error) {
	lease, err := c.leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: 60})
	if err != nil {
		return nil, err
	}
	res, err := c.Campaign(ctx, &v3electionpb.CampaignRequest{Name: c.name, Lease: lease.ID, Value: []byte(value)})
	return res.GetLeader(), err
}

func (c *campaigning) proclaim(ctx context.Context, leader *v3electionpb.LeaderKey, value string) {
	c.t.Helper()
	if _, err := c.Proclaim(ctx, &v3electionpb.ProclaimRequest{Leader: leader, Value: []byte(value)}); err != nil {
		c.t.Fatal(err)
	}
}

// TestObserve follows an election in which leaders change, all of it with the generated client.
func TestObserve(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	ctx, cancel := context.WithCancel(bounded(t))
	conn := dial(t, server.Addr())
	c := &campaigning{ElectionClient: v3electionpb.NewElectionClient(conn), t: t, leases: etcdserverpb.NewLeaseClient(conn), name: []byte(t.Name())}
	// It begins before there is a leader, and nothing comes until there is one.
	stream, err := c.Observe(ctx, &v3electionpb.LeaderRequest{Name: c.name})
	if err != nil {
		t.Fatal(err)
	}
	observe := func(want string) []byte {
		t.Helper()
		got, err := stream.Recv()
		if err != nil || string(got.Kv.Value) != want {
			t.Fatalf("observed %v %v, want %s", got, err, want)
		}
		return got.Kv.Key
	}
	first, err := c.campaign(ctx, "first")
	if err != nil {
		t.Fatal(err)
	}
	key := observe("first")
	if string(key) != string(first.Key) {
		t.Errorf("the leader's key is %q, want %q", key, first.Key)
	}
	for i := range 5 {
		text := fmt.Sprintf("first proclaims %d", i)
		c.proclaim(ctx, first, text)
		observe(text)
	}

	// The second waits for the first to resign.
	type result struct {
		leader *v3electionpb.LeaderKey
		err    error
	}
	elected := make(chan result, 1)
	go func() {
		leader, err := c.campaign(ctx, "second")
		elected <- result{leader, err}
	}()
	kv := etcdserverpb.NewKVClient(conn)
	testkit.Until(t, "the second is a candidate", func() bool {
		got, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte(t.Name() + "/"), RangeEnd: []byte(t.Name() + "0"), CountOnly: true})
		return err == nil && got.Count == 2
	})
	select {
	case got := <-elected:
		t.Fatalf("two lead: %v", got)
	default:
	}
	if _, err := c.Resign(ctx, &v3electionpb.ResignRequest{Leader: first}); err != nil {
		t.Fatal(err)
	}
	observe("second")
	got := <-elected
	if got.err != nil {
		t.Fatal(got.err)
	}
	c.proclaim(ctx, got.leader, "second proclaims")
	observe("second proclaims")
	cancel()
	if res, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("at the end: %v %v", res, err)
	}
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, "etcd_debugging_mvcc_watcher_total") == 0 })
}

// TestCampaignEnds has candidates give up in every way while another one leads. Etcd withdraws a
// candidate when its RPC is cancelled, and one that it does not withdraw would be elected later.
func TestCampaignEnds(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t, "--timeout", "4s")
	direct := dial(t, e.addr)
	kv := etcdserverpb.NewKVClient(direct)
	leading := &campaigning{ElectionClient: v3electionpb.NewElectionClient(direct), t: t, leases: etcdserverpb.NewLeaseClient(direct), name: []byte("ends")}
	if _, err := leading.campaign(bounded(t), "leader"); err != nil {
		t.Fatal(err)
	}
	candidates := func() int64 {
		got, err := kv.Range(bounded(t), &etcdserverpb.RangeRequest{Key: []byte("ends/"), RangeEnd: []byte("ends0"), CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return got.Count
	}
	conn := dial(t, server.Addr())
	waiting := &campaigning{ElectionClient: v3electionpb.NewElectionClient(conn), t: t, leases: etcdserverpb.NewLeaseClient(conn), name: leading.name}
	for name, tt := range map[string]struct {
		begin func(context.Context) (context.Context, context.CancelFunc)
		// givesUp: it is cancelled once it is a candidate, and does not wait for its time to be over.
		givesUp bool
		want    codes.Code
	}{
		"cancelled": {context.WithCancel, true, codes.Canceled},
		"the caller's deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}, false, codes.DeadlineExceeded},
		"the sidecar's time": {context.WithCancel, false, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := tt.begin(bounded(t))
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := waiting.campaign(ctx, "candidate")
				ended <- err
			}()
			testkit.Until(t, "it is a candidate", func() bool { return candidates() == 2 })
			if tt.givesUp {
				cancel()
			}
			if err := <-ended; status.Code(err) != tt.want {
				t.Errorf("it ended with %v", err)
			}
			testkit.Until(t, "it is none any more", func() bool { return candidates() == 1 })
		})
	}
}
