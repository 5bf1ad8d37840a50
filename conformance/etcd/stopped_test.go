// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestEtcdIsKilled ends etcd below a watch, once as a typed stream and once as a call of a tool. Neither
// may end well, or wait: events that come later would be missed.
func TestEtcdIsKilled(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	stream, err := etcdserverpb.NewWatchClient(dial(t, server.Addr())).Watch(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{t: t, stream: stream}
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("key")})
	w.next()
	agent := caller.Find(t, "rpc").Dial(t, caller.Target{Addr: server.Addr()})
	defer agent.Close()
	answered := make(chan caller.Answer, 1)
	go func() {
		answered <- caller.One(bounded(t), agent, caller.Call{
			ID: `"watch"`, Tool: "watch.watch", Args: `{"items":[{"createRequest":{"key":"` + base64Of("key") + `"}}]}`,
		})
	}()
	testkit.Until(t, "both watch", func() bool { return e.metric(t, "etcd_debugging_mvcc_watcher_total") == 2 })

	e.stop(syscall.SIGKILL)
	if res, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream: %v %v", res, err)
	}
	// What was sent may have been done, so the code is that of an open outcome.
	got := <-answered
	if got.Fault == nil || got.Fault.Code != "TRANSPORT_ERROR" || !strings.Contains(string(got.Fault.Data), `"itemsSent":1`) {
		t.Errorf("the tool: %v %v %s", got.Err, got.Fault, got.Data)
	}
}
