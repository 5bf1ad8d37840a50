// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// shortStreams is a configuration in which the streams that never end are read for so long. Etcd
// ends neither of them, so each call lasts that long.
func shortStreams(t *testing.T, seconds string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sidecar.yaml")
	text := fmt.Sprintf("tools:\n- {method: etcdserverpb.Watch/Watch, tool: {stream_time: %[1]s}}\n- {method: v3electionpb.Election/Observe, tool: {stream_time: %[1]s}}\n", seconds)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// header is that of each of etcd's answers.
type header struct {
	Revision int64 `json:",string"`
}

// keyValue is a mvccpb.KeyValue in JSON.
type keyValue struct {
	Key, Value  []byte
	ModRevision int64 `json:",string"`
	Lease       string
}

// watchResults is the result of watch.watch.
type watchResults struct {
	Items     []watchItem
	Truncated *bool
}

type watchItem struct {
	Header            header
	WatchID           string
	Created, Canceled bool
	Events            []struct {
		Type string
		KV   keyValue
	}
}

// puts are the events of a result as "key=value".
func (r watchResults) puts() []string {
	var out []string
	for _, item := range r.Items {
		for _, e := range item.Events {
			out = append(out, fmt.Sprintf("%s %s=%q", e.Type, e.KV.Key, e.KV.Value))
		}
	}
	return out
}

// agentOf calls tools over one edge.
type agentOf struct {
	caller.Agent

	t    *testing.T
	next int
}

// call makes a call that must succeed, and reads its result.
func (a *agentOf) call(tool, args string, into any) {
	a.t.Helper()
	a.next++
	a.read(caller.One(bounded(a.t), a, caller.Call{ID: fmt.Sprintf(`"%d"`, a.next), Tool: tool, Args: args}), into)
}

func (a *agentOf) read(answer caller.Answer, into any) {
	a.t.Helper()
	if answer.Err != nil || answer.Fault != nil {
		a.t.Fatalf("%v; %v", answer.Err, answer.Fault)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		a.t.Fatalf("%v: %.300s", err, answer.Data)
	}
}

// fails makes a call that must fail with a canonical code.
func (a *agentOf) fails(tool, args, code string) *caller.Fault {
	a.t.Helper()
	a.next++
	answer := caller.One(bounded(a.t), a, caller.Call{ID: fmt.Sprintf(`"%d"`, a.next), Tool: tool, Args: args})
	if answer.Err != nil || answer.Fault == nil || answer.Fault.Code != code {
		a.t.Fatalf("%v; %v %s; want %s", answer.Err, answer.Fault, answer.Data, code)
	}
	return answer.Fault
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestTools calls etcd's RPCs as tools over every edge that has tools.
func TestTools(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	args := e.backend("--config", shortStreams(t, "2s"))
	server := e.serve(t, args[4:]...)
	direct := dial(t, e.addr)
	elections := &campaigning{ElectionClient: v3electionpb.NewElectionClient(direct), t: t, leases: etcdserverpb.NewLeaseClient(direct)}
	for _, name := range []string{
		"mcp-modern", "mcp-legacy", "sdk-modern-http", "sdk-legacy-http", "sdk-modern-stdio", "sdk-legacy-stdio",
		"stdio-modern", "stdio-canonical", "rpc", "rpc-batch", "rpc-message-form",
		"tool-connect", "tool-grpc", "tool-grpcweb", "exchange-grpc",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := caller.Find(t, name).Dial(t, caller.Target{Addr: server.Addr(), Binary: built.binary, Args: args})
			defer agent.Close()
			a := &agentOf{Agent: agent, t: t}
			lease := a.leases(name)
			revision := a.keys(name, lease)
			a.faults(name)
			// Only what came before the streams were opened is sure to come in their time.
			own := *elections
			own.t, own.name = t, []byte("elect "+name) // not below a key: etcd would take what is there for candidates
			leader, err := own.campaign(bounded(t), "candidate")
			if err != nil {
				t.Fatal(err)
			}
			a.streams(name, revision, string(leader.Key))
		})
	}
}

// leases grants a lease whose id has no room in a float64, renews it, and returns the id.
func (a *agentOf) leases(name string) string {
	a.t.Helper()
	id := fmt.Sprint(1<<62 + int64(crc32.ChecksumIEEE([]byte(name)))*2 + 1)
	var granted struct{ ID, TTL, Error string }
	a.call("lease.lease_grant", `{"ID":"`+id+`","TTL":"60"}`, &granted)
	if granted.ID != id || granted.TTL != "60" {
		a.t.Errorf("granted %+v, want %s", granted, id)
	}
	var kept struct {
		Items     []struct{ ID, TTL string }
		Truncated *bool
	}
	const unknown = "9007199254740993"
	a.call("lease.lease_keep_alive", `{"items":[{"ID":"`+id+`"},{"ID":"`+unknown+`"},{"ID":"`+id+`"}]}`, &kept)
	// Etcd ends the RPC when the input has ended, so nothing is left out.
	if kept.Truncated == nil || *kept.Truncated {
		a.t.Error("truncated, or without a word about it")
	}
	want := []struct{ ID, TTL string }{{id, "60"}, {unknown, "0"}, {id, "60"}}
	if diff := cmp.Diff(want, kept.Items); diff != "" {
		a.t.Errorf("kept alive (-want +got):\n%s", diff)
	}
	return id
}

// values are those that every edge puts.
func values() []string { return []string{"\x00\x01\xff", "", "text"} }

// keys puts values of any bytes, reads them, and returns the revision of the first.
func (a *agentOf) keys(name, lease string) int64 {
	a.t.Helper()
	var first int64
	for i, value := range values() {
		var put struct{ Header header }
		a.call("kv.put", fmt.Sprintf(`{"key":%q,"value":%q,"lease":%q}`, base64Of(fmt.Sprintf("%s/%d", name, i)), base64Of(value), lease), &put)
		if i == 0 {
			first = put.Header.Revision
		}
	}
	var got struct {
		Kvs   []keyValue
		Count string
		More  bool
	}
	a.call("kv.range", fmt.Sprintf(`{"key":%q,"rangeEnd":%q,"limit":"2"}`, base64Of(name+"/"), base64Of(name+"0")), &got)
	if got.Count != "3" || !got.More || len(got.Kvs) != 2 {
		a.t.Fatalf("range: %+v", got)
	}
	for i, kv := range got.Kvs {
		if string(kv.Key) != fmt.Sprintf("%s/%d", name, i) || string(kv.Value) != values()[i] || kv.Lease != lease || kv.ModRevision < first {
			a.t.Errorf("%d: %+v", i, kv)
		}
	}
	return first
}

// faults makes mistakes, of which etcd finds some and the sidecar others.
func (a *agentOf) faults(name string) {
	a.t.Helper()
	fault := a.fails("kv.range", `{}`, "TOOL_EXECUTION_FAILED")
	if !strings.Contains(fault.Message, "etcdserver: key is not provided") {
		a.t.Errorf("etcd's words: %v", fault)
	}
	a.fails("kv.put", `{"key":"no base64!"}`, "INVALID_TOOL_INPUT")
	a.fails("lease.lease_grant", `{"TTL":"9223372036854775808"}`, "INVALID_TOOL_INPUT")
	fault = a.fails("watch.watch", `{"items":[{"createRequest":{"key":"`+base64Of(name)+`"}},{"createRequest":{"watchId":"one"}}]}`, "INVALID_TOOL_INPUT")
	if fault.Data == nil {
		return // an RPC's status has details instead
	}
	if data := string(fault.Data); !strings.Contains(data, `"/items/1/createRequest/watchId"`) || !strings.Contains(data, `"itemsSent":1`) {
		a.t.Errorf("the second item is wrong: %s", data)
	}
}

// streams watches what was put, and who was elected, at the same time.
func (a *agentOf) streams(name string, revision int64, leader string) {
	a.t.Helper()
	create := fmt.Sprintf(`{"createRequest":{"key":%q,"rangeEnd":%q,"startRevision":"%d","watchId":"9007199254740993"}}`, base64Of(name+"/"), base64Of(name+"0"), revision)
	answers := a.CallAll(bounded(a.t), []caller.Call{
		{ID: `"watch"`, Tool: "watch.watch", Args: `{"items":[` + create + `]}`},
		{ID: `"observe"`, Tool: "election.observe", Args: `{"name":"` + base64Of("elect "+name) + `"}`},
	})
	var watched watchResults
	a.read(answers[0], &watched)
	if watched.Truncated == nil || !*watched.Truncated || len(watched.Items) == 0 || !watched.Items[0].Created || watched.Items[0].WatchID != "9007199254740993" {
		a.t.Fatalf("watched: %+v", watched)
	}
	var want []string
	for i, value := range values() {
		want = append(want, fmt.Sprintf("PUT %s/%d=%q", name, i, value))
	}
	if diff := cmp.Diff(want, watched.puts()); diff != "" {
		a.t.Errorf("watched (-want +got):\n%s", diff)
	}
	var observed struct {
		Items     []struct{ KV keyValue }
		Truncated *bool
	}
	a.read(answers[1], &observed)
	if observed.Truncated == nil || !*observed.Truncated || len(observed.Items) != 1 ||
		string(observed.Items[0].KV.Key) != leader || string(observed.Items[0].KV.Value) != "candidate" {
		a.t.Errorf("observed: %+v", observed)
	}
}
