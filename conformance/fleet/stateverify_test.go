// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// inspect connects as `sidecar state` does, with a bucket of things declared.
func inspect(t *testing.T, o state.Options) *state.Inspector {
	t.Helper()
	if o.Sealer == nil {
		o.Sealer = newSealer(t)
	}
	i, err := state.Inspect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	i.Bucket(things())
	return i
}

// findings is what verify says, a line each.
func findings(t *testing.T, i *state.Inspector) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	var b strings.Builder
	ok := i.Verify(ctx, state.VerifyOptions{MaxResultBytes: 1 << 20, MaxValues: 1000}, func(f state.Finding) {
		fmt.Fprintf(&b, "%s: %s", f.Level, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(&b, " -> %s", f.Fix)
		}
		b.WriteString("\n")
	})
	return b.String(), ok
}

// TestVerifyFinds: each defect is found, and says what to do.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	right := jetstream.StreamConfig{
		Name: "KV_outrigger_default_things", Subjects: []string{"$KV.outrigger_default_things.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		AllowRollup: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute, MaxBytes: things().MaxBytes, MaxAge: things().MaxAge,
		Storage: jetstream.FileStorage, Replicas: 1,
	}
	with := func(change func(*jetstream.StreamConfig)) func(*testing.T, *natsServer) {
		return func(t *testing.T, n *natsServer) {
			t.Helper()
			config := right
			change(&config)
			if _, err := n.admin().CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}
	}
	stores := func(bytes int) func(*testing.T, *natsServer) {
		return func(t *testing.T, n *natsServer) {
			t.Helper()
			c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
			b := c.Bucket(things())
			healthy(t, c)
			for stored := 0; stored < bytes; stored += 100 << 10 {
				if _, err := b.Create(t.Context(), fmt.Sprintf("k%d", stored), make([]byte, 100<<10), time.Hour); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	denied := func(subject string) func(*server.Options) {
		return func(o *server.Options) {
			o.Users = []*server.User{{Username: "sidecar", Password: "sidecar", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{subject}},
			}}}
		}
	}
	most := int(things().MaxBytes)
	for _, test := range []struct {
		name   string
		server func(*server.Options)
		before func(*testing.T, *natsServer)
		want   []string
		ok     bool
	}{
		{"all is well", nil, with(func(*jetstream.StreamConfig) {}), []string{
			"ok: things: KV_outrigger_default_things is as it should be", "the clocks of the servers and the one here differ by less than 2s",
			"note: how often the servers write to the disk is not visible", "sync_interval: always", "warn: there is one copy",
		}, true},
		{"no stream", nil, nil, []string{"fail: things: there is no stream KV_outrigger_default_things -> start a replica, which makes it, or run `nats stream add"}, false},
		{"settings that break promises", nil, with(func(c *jetstream.StreamConfig) { c.AllowDirect, c.MaxMsgsPerSubject = true, 5 }), []string{
			"fail: things: it allows direct gets", "fail: things: it keeps more than the last value of a key", "nats stream edit KV_outrigger_default_things",
		}, false},
		{"settings that differ", nil, with(func(c *jetstream.StreamConfig) { c.MaxBytes, c.Storage = 8<<20, jetstream.MemoryStorage }), []string{
			"warn: things: max_bytes is 8388608, configured is 4194304", "warn: things: storage is Memory", "warn: storage is memory: everything is lost",
		}, true},
		{"another key, and little room", nil, stores(most * 85 / 100), []string{"values cannot be opened (k0: ", "use the --state-key of the replicas", "warn: things: "}, false},
		{"no JetStream", func(o *server.Options) { o.JetStream = false }, nil, []string{
			"without JetStream -> start it with `jetstream {}`", "fail: JetStream is not enabled for the account", "fail: things: ",
		}, false},
		{"small messages", func(o *server.Options) { o.MaxPayload = 100 << 10 }, with(func(*jetstream.StreamConfig) {}), []string{
			"warn: ", "max_payload is 102400 bytes, and limits.max_result_bytes is 1048576", "set max_payload of the servers to 1048576 or more",
		}, true},
		{"may not write", denied("$KV.>"), with(func(*jetstream.StreamConfig) {}), []string{
			"fail: things: the account may not write -> allow the account to publish on $KV.outrigger_default_things.>",
		}, false},
		{"may not look", denied("$JS.API.STREAM.INFO.>"), with(func(*jetstream.StreamConfig) {}), []string{
			"fail: things: state: unavailable: the account may not publish on $JS.API.STREAM.INFO.KV_outrigger_default_things: allow it",
		}, false},
		{"may not look at the account", denied("$JS.API.INFO"), with(func(*jetstream.StreamConfig) {}), []string{"note: the limits of the account are not visible"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := startNATS(t, test.server)
			if test.server != nil && len(n.options.Users) > 0 {
				// An operator makes the stream, who may.
				n.stop()
				users := n.options.Users
				n.options.Users = nil
				n.start()
				test.before(t, n)
				n.stop()
				n.options.Users = users
				n.start()
			} else if test.before != nil {
				test.before(t, n)
			}
			url := n.URL()
			if len(n.options.Users) > 0 {
				url = strings.Replace(url, "nats://", "nats://sidecar:sidecar@", 1)
			}
			text, ok := findings(t, inspect(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: url, OperationTimeout: durationpb.New(time.Second)})}))
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no finding %q", want)
				}
			}
			if ok != test.ok || t.Failed() {
				t.Errorf("ok is %v, want %v:\n%s", ok, test.ok, text)
			}
			if strings.Contains(text, "sidecar:sidecar") {
				t.Errorf("the findings have the password:\n%s", text)
			}
		})
	}
}

// TestVerifyOfACluster: a server that is gone is found, and so is its copy.
func TestVerifyOfACluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	var urls []string
	for _, n := range cluster {
		urls = append(urls, n.URL())
	}
	sealer := newSealer(t)
	o := state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(3)), OperationTimeout: durationpb.New(5 * time.Second)}), Sealer: sealer}
	c := open(t, o)
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", []byte("one"), time.Hour); err != nil {
		t.Fatal(err)
	}
	var text string
	var ok bool
	testkit.Until(t, "three servers are well", func() bool {
		text, ok = findings(t, inspect(t, o))
		return ok && !strings.Contains(text, "warn: ") && strings.Count(text, "with JetStream") == 3
	})
	i := inspect(t, o)
	info, err := i.Info(t.Context(), "things")
	if err != nil || info.Leader == "" || len(info.Followers) != 2 || info.Replicas != 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	var gone string
	for _, n := range cluster {
		if n.options.ServerName != info.Leader {
			gone = n.options.ServerName
			n.stop()
			break
		}
	}
	testkit.Until(t, "the server that is gone is found", func() bool {
		text, ok = findings(t, inspect(t, o))
		return !ok && strings.Contains(text, ": cannot connect: ") && strings.Contains(text, "warn: things: the copy at "+gone)
	})
}
