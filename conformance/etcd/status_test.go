// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
)

// gogo is a message of etcd's generated code.
type gogo interface{ Marshal() ([]byte, error) }

// asked makes a call of a request.
func asked[Req any, Res gogo](call func(context.Context, *Req, ...grpc.CallOption) (Res, error), req *Req) func(context.Context) (gogo, error) {
	return func(ctx context.Context) (gogo, error) { return call(ctx, req) }
}

// services are the clients of one connection.
type services struct {
	kv       etcdserverpb.KVClient
	lease    etcdserverpb.LeaseClient
	auth     etcdserverpb.AuthClient
	cluster  etcdserverpb.ClusterClient
	election v3electionpb.ElectionClient
}

func servicesOf(conn *grpc.ClientConn) *services {
	return &services{
		kv: etcdserverpb.NewKVClient(conn), lease: etcdserverpb.NewLeaseClient(conn), auth: etcdserverpb.NewAuthClient(conn),
		cluster: etcdserverpb.NewClusterClient(conn), election: v3electionpb.NewElectionClient(conn),
	}
}

// TestTheSameAsDirectly makes calls that change nothing, through the sidecar and of etcd itself,
// and compares what comes back: the bytes of the response, or the status with its message.
func TestTheSameAsDirectly(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	ctx := bounded(t)
	direct, through := servicesOf(dial(t, e.addr)), servicesOf(dial(t, server.Addr()))
	for _, value := range []string{"one", "two", "\x00\xff"} {
		put(ctx, t, through.kv, "key/"+value, value)
	}
	put(ctx, t, through.kv, "large", string(bytes.Repeat([]byte{0xfe}, 1<<20)))
	empty := &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: &etcdserverpb.PutRequest{Key: []byte("twice")}}}
	for name, tt := range map[string]struct {
		code codes.Code
		call func(s *services) func(context.Context) (gogo, error)
	}{
		"a range": {codes.OK, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Range, &etcdserverpb.RangeRequest{Key: []byte("key/"), RangeEnd: []byte("key0")})
		}},
		"a range of a megabyte": {codes.OK, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Range, &etcdserverpb.RangeRequest{Key: []byte("large")})
		}},
		"a transaction that only reads": {codes.OK, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Txn, &etcdserverpb.TxnRequest{
				Compare: []*etcdserverpb.Compare{{Key: []byte("key/one"), Result: etcdserverpb.Compare_GREATER, Target: etcdserverpb.Compare_VERSION, TargetUnion: &etcdserverpb.Compare_Version{}}},
				Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: &etcdserverpb.RangeRequest{Key: []byte("key/two")}}}},
			})
		}},
		"the members": {codes.OK, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.cluster.MemberList, &etcdserverpb.MemberListRequest{})
		}},
		"a range without a key": {codes.InvalidArgument, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Range, &etcdserverpb.RangeRequest{})
		}},
		"a range of the future": {codes.OutOfRange, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Range, &etcdserverpb.RangeRequest{Key: []byte("key/one"), Revision: 1 << 60})
		}},
		"a put without a key": {codes.InvalidArgument, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Put, &etcdserverpb.PutRequest{})
		}},
		"a put with an unknown lease": {codes.NotFound, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Put, &etcdserverpb.PutRequest{Key: []byte("leased"), Lease: 1<<53 + 1})
		}},
		"a put that is too large": {codes.InvalidArgument, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Put, &etcdserverpb.PutRequest{Key: []byte("larger"), Value: make([]byte, 1800<<10)})
		}},
		"a transaction that puts a key twice": {codes.InvalidArgument, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Txn, &etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{empty, empty}})
		}},
		"a compaction of the future": {codes.OutOfRange, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.kv.Compact, &etcdserverpb.CompactionRequest{Revision: 1 << 60})
		}},
		"a lease that is unknown": {codes.NotFound, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.lease.LeaseRevoke, &etcdserverpb.LeaseRevokeRequest{ID: 1<<62 + 3})
		}},
		"a lease that lives too long": {codes.OutOfRange, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.lease.LeaseGrant, &etcdserverpb.LeaseGrantRequest{TTL: 1 << 40})
		}},
		"a member that is unknown": {codes.NotFound, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.cluster.MemberPromote, &etcdserverpb.MemberPromoteRequest{ID: 1<<64 - 1})
		}},
		"a login without authentication": {codes.FailedPrecondition, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.auth.Authenticate, &etcdserverpb.AuthenticateRequest{Name: "root", Password: "secret"})
		}},
		"a user that is unknown": {codes.FailedPrecondition, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.auth.UserGet, &etcdserverpb.AuthUserGetRequest{Name: "unknown"})
		}},
		"an election without a leader": {codes.Unknown, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.election.Leader, &v3electionpb.LeaderRequest{Name: []byte("unknown")})
		}},
		"a proclamation without a leader": {codes.Unknown, func(s *services) func(context.Context) (gogo, error) {
			return asked(s.election.Proclaim, &v3electionpb.ProclaimRequest{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantErr := tt.call(direct)(bounded(t))
			got, err := tt.call(through)(bounded(t))
			if code := status.Code(wantErr); code != tt.code {
				t.Fatalf("etcd says %v, want %v: %v", code, tt.code, wantErr)
			}
			if diff := cmp.Diff(status.Convert(wantErr).Proto(), status.Convert(err).Proto(), protocmp.Transform()); diff != "" {
				t.Fatalf("status (-direct +sidecar):\n%s", diff)
			}
			if err != nil {
				return
			}
			wantRaw, wantErr := want.Marshal()
			raw, err := got.Marshal()
			if wantErr != nil || err != nil || !bytes.Equal(wantRaw, raw) {
				t.Errorf("%v %v; %d bytes directly and %d through the sidecar", wantErr, err, len(wantRaw), len(raw))
			}
		})
	}
}
