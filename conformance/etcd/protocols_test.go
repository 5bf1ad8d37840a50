// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// methods finds methods in the descriptors that the sidecar has.
type methods struct{ files *protoregistry.Files }

func readMethods(t *testing.T) methods {
	t.Helper()
	raw, err := os.ReadFile(built.descriptors)
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return methods{files}
}

func (m methods) find(t *testing.T, service protoreflect.FullName, method protoreflect.Name) protoreflect.MethodDescriptor {
	t.Helper()
	found, err := m.files.FindDescriptorByName(service)
	if err != nil {
		t.Fatal(err)
	}
	sd, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		t.Fatalf("%s is no service", service)
	}
	return sd.Methods().ByName(method)
}

// dynamic is a client for a method of which connect-go has no generated code.
func dynamic(t *testing.T, url string, md protoreflect.MethodDescriptor, h2 bool, options ...connect.ClientOption) *anyClient {
	t.Helper()
	client := caller.Client(h2)
	t.Cleanup(client.CloseIdleConnections)
	options = append(options, connect.WithSchema(md), connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
		if m, ok := message.(*dynamicpb.Message); ok {
			*m = *dynamicpb.NewMessage(md.Output())
		}
		return nil
	}))
	return connect.NewClient[dynamicpb.Message, dynamicpb.Message](client, url+"/"+string(md.Parent().FullName())+"/"+string(md.Name()), options...)
}

// message reads a request from JSON.
func message(t *testing.T, md protoreflect.MessageDescriptor, text string) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(md)
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// read reads a response into the form that the results of tools have.
func read(t *testing.T, got *dynamicpb.Message, into any) {
	t.Helper()
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(got)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

// TestProtocols talks to etcd, which only knows gRPC, over the other protocols of the sidecar, in
// Protobuf and in JSON.
func TestProtocols(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	direct := dial(t, e.addr)
	leases := etcdserverpb.NewLeaseClient(direct)
	if _, err := leases.LeaseGrant(bounded(t), &etcdserverpb.LeaseGrantRequest{ID: 1<<53 + 1, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	elections := &campaigning{ElectionClient: v3electionpb.NewElectionClient(direct), t: t, leases: leases, name: []byte("protocols")}
	leader, err := elections.campaign(bounded(t), "candidate")
	if err != nil {
		t.Fatal(err)
	}
	found := readMethods(t)
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "Connect, JSON": {connect.WithProtoJSON()},
		"gRPC": {connect.WithGRPC()}, "gRPC, JSON": {connect.WithGRPC(), connect.WithProtoJSON()},
		"gRPC-Web": {connect.WithGRPCWeb()}, "gRPC-Web, JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			keepAlive := found.find(t, "etcdserverpb.Lease", "LeaseKeepAlive")
			keepLease(t, keepAlive, dynamic(t, server.URL(""), keepAlive, true, options...))
			watch := found.find(t, "etcdserverpb.Watch", "Watch")
			watchPut(t, etcdserverpb.NewKVClient(direct), watch, dynamic(t, server.URL(""), watch, true, options...))
			// A server's stream needs no HTTP/2, except over gRPC.
			observe := found.find(t, "v3electionpb.Election", "Observe")
			elections.proclaim(bounded(t), leader, name)
			observeLeader(t, observe, dynamic(t, server.URL(""), observe, strings.HasPrefix(name, "gRPC") && !strings.HasPrefix(name, "gRPC-Web"), options...),
				name, func(value string) { elections.proclaim(bounded(t), leader, value) })
		})
	}
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, "etcd_debugging_mvcc_watcher_total") == 0 })
}

// anyClient calls a method whose messages have no Go types.
type anyClient = connect.Client[dynamicpb.Message, dynamicpb.Message]

// keepLease renews a lease, and half-closes.
func keepLease(t *testing.T, method protoreflect.MethodDescriptor, client *anyClient) {
	t.Helper()
	stream := client.CallBidiStream(bounded(t))
	defer func() { _ = stream.CloseResponse() }()
	for range 3 {
		if err := stream.Send(message(t, method.Input(), `{"ID":"9007199254740993"}`)); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		var kept struct{ ID, TTL string }
		if read(t, got, &kept); kept.ID != "9007199254740993" || kept.TTL != "60" {
			t.Errorf("kept alive: %v", got)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the half-close: %v %v", got, err)
	}
}

// watchPut creates a watch, sees a put, and ends the watch and the RPC.
func watchPut(t *testing.T, kv etcdserverpb.KVClient, method protoreflect.MethodDescriptor, client *anyClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream := client.CallBidiStream(ctx)
	defer func() { _ = stream.CloseResponse() }()
	send := func(text string) {
		t.Helper()
		if err := stream.Send(message(t, method.Input(), text)); err != nil {
			t.Fatal(err)
		}
	}
	next := func(what string, is func(watchItem) bool) {
		t.Helper()
		got, err := stream.Receive()
		if err != nil {
			t.Fatal(err)
		}
		var w watchItem
		if read(t, got, &w); w.WatchID != "9007199254740993" || !is(w) {
			t.Fatalf("%s: %v", what, got)
		}
	}
	send(`{"createRequest":{"key":"` + base64Of("watched") + `","watchId":"9007199254740993"}}`)
	next("created", func(w watchItem) bool { return w.Created })
	put(ctx, t, kv, "watched", "\x00\xff")
	next("a put", func(w watchItem) bool { return len(w.Events) == 1 && string(w.Events[0].KV.Value) == "\x00\xff" })
	send(`{"cancelRequest":{"watchId":"9007199254740993"}}`)
	next("cancelled", func(w watchItem) bool { return w.Canceled })
	cancel()
	if got, err := stream.Receive(); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("at the end: %v %v", got, err)
	}
}

// observeLeader sees what the leader proclaims now, and what it proclaims then.
func observeLeader(t *testing.T, method protoreflect.MethodDescriptor, client *anyClient, now string, proclaim func(value string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream, err := client.CallServerStream(ctx, connect.NewRequest(message(t, method.Input(), `{"name":"`+base64Of("protocols")+`"}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	observe := func(want string) {
		t.Helper()
		if !stream.Receive() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		var got struct{ KV keyValue }
		if read(t, stream.Msg(), &got); string(got.KV.Value) != want {
			t.Fatalf("observed %v, want %s", stream.Msg(), want)
		}
	}
	observe(now)
	for _, then := range []string{now + " and then", now + " at last"} {
		proclaim(then)
		observe(then)
	}
	cancel()
}
