// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestMayNotCreate: an account that may not create streams learns how an operator can,
// and works once it has happened.
func TestMayNotCreate(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "sidecar", Password: "sidecar", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.CREATE.>"}},
			}},
		}
	})
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Replace(n.URL(), "nats://", "nats://sidecar:sidecar@", 1), OperationTimeout: durationpb.New(300 * time.Millisecond)})})
	b := c.Bucket(things())
	const command = "nats stream add KV_outrigger_default_things --subjects='$KV.outrigger_default_things.>'"
	testkit.Until(t, "the command is shown", func() bool { return strings.Contains(c.Health().Why, command) })
	_, err := n.admin(nats.UserInfo("admin", "admin")).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_outrigger_default_things", Subjects: []string{"$KV.outrigger_default_things.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		AllowRollup: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", nil, time.Hour); err != nil {
		t.Error(err)
	}
}

// TestLeastPermissions: the permissions that docs/operations.md names are enough for all
// that tasks and sessions need.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "sidecar", Password: "sidecar", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				"$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>",
				"$JS.API.CONSUMER.DELETE.>", "$KV.outrigger_default_tasks.>", "$KV.outrigger_default_owners.>", "$JS.API.STREAM.CREATE.>",
				"$KV.outrigger_default_ended.>", "outrigger_default_replicas.>", "_INBOX.>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "outrigger_default_replicas.>"}},
		}}}
	})
	core, lines := observer.New(zapcore.WarnLevel)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Replace(n.URL(), "nats://", "nats://sidecar:sidecar@", 1)}), Log: zap.New(core)})
	s := openTasks(t, c, taskstore.Options{})
	shared := &session.Replicas{Self: s.Self(), Gone: s.Gone, Channel: c.Channel(session.ChannelName), Ended: c.Bucket(session.EndedBucket())}
	healthy(t, c)
	useSessions(t, shared)
	var told atomic.Bool
	s.Watch(func(task.Record) { told.Store(true) })
	r := task.Record{ID: "t_1", Principal: "alice", Expires: time.Now().Add(time.Hour), Task: &outriggerv1.Task{TaskId: "t_1", LastUpdatedAt: timestamppb.Now()}}
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.Takeovers++ // so that it is no creation
	if err := s.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the watcher is notified", told.Load)
	if err := s.Delete(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if lines.Len() > 0 {
		t.Errorf("warnings: %v", lines.All())
	}
}

// TestMessagesThatMayNotPass: an account that may not use the subjects between replicas learns which.
func TestMessagesThatMayNotPass(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]*server.Permissions{
		"publish":   {Publish: &server.SubjectPermission{Deny: []string{"outrigger_default_replicas.>"}}},
		"subscribe": {Subscribe: &server.SubjectPermission{Deny: []string{"outrigger_default_replicas.>"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNATS(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "sidecar", Password: "sidecar", Permissions: denied}}
			})
			c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Replace(n.URL(), "nats://", "nats://sidecar:sidecar@", 1), OperationTimeout: durationpb.New(300 * time.Millisecond)})})
			c.Channel("replicas")
			testkit.Until(t, "it says what to allow", func() bool {
				h := c.Health()
				return !h.OK && strings.Contains(h.Why, "allow the account to publish on outrigger_default_replicas.>")
			})
		})
	}
}

// useSessions has a session that another replica opened change and end.
func useSessions(t *testing.T, shared *session.Replicas) {
	t.Helper()
	sealer := keys.NewSealer(keys.SealerOptions{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	begin := func(name string) *session.Manager {
		own := *shared
		own.Self = name
		m := session.New(session.Options{Sealer: sealer, Replicas: &own})
		running.Go(func() { m.Run(ctx) })
		return m
	}
	home, other := begin("home"), begin("other")
	defer func() {
		home.Close()
		other.Close()
		stop()
		running.Wait()
	}()
	opened, err := home.OpenSealed("alice", nil, 1, session.Lists{})
	if err != nil {
		t.Fatal(err)
	}
	there, err := other.Use(ctx, "alice", opened.ID())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "its home has the level", func() bool {
		err := there.SetLogLevel(ctx, outriggerv1.LogLevel_LOG_LEVEL_ERROR)
		return err == nil && opened.LogLevel() == outriggerv1.LogLevel_LOG_LEVEL_ERROR
	})
	if err := other.End(ctx, there); err != nil && !errors.Is(err, session.ErrUnknown) {
		t.Fatal(err)
	}
	select {
	case <-opened.Done():
	case <-time.After(testkit.Limit()):
		t.Error("it has not ended at its home")
	}
}

// TestNkeyChanges: a key that is replaced in its file is used without a restart.
func TestNkeyChanges(t *testing.T) {
	t.Parallel()
	var seeds, users []string
	for range 2 {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		user, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		seeds, users = append(seeds, string(seed)), append(users, user)
	}
	n := startNATS(t, func(o *server.Options) {
		o.Nkeys = []*server.NkeyUser{{Nkey: users[0]}, {Nkey: users[1]}}
	})
	file := filepath.Join(t.TempDir(), "sidecar.nk")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(seeds[0])
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), NkeyFile: file})})
	b := c.Bucket(things())
	healthy(t, c)
	write("no seed")
	if err := c.Reload(); err == nil || strings.Contains(err.Error(), seeds[0]) {
		t.Errorf("reload of a file without a seed: %v", err)
	}
	write(seeds[1])
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	connected := func() bool {
		connections, err := n.running.Connz(&server.ConnzOptions{Username: true})
		if err != nil || len(connections.Conns) != 1 {
			return false
		}
		return connections.Conns[0].AuthorizedUser == users[1]
	}
	testkit.Until(t, "the other key is used, and the old connection is gone", connected)
	healthy(t, c)
	testkit.Until(t, "it works", func() bool {
		_, err := b.Create(t.Context(), "k", nil, time.Hour)
		return err == nil
	})
}

// TestStream appends, and reads one subject on from a place.
func TestStream(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	s := c.Stream(state.StreamOptions{Name: "events", MaxBytes: 1 << 20, MaxAge: time.Hour})
	healthy(t, c)
	for i, text := range []string{"one", "two", "three"} {
		if sequence, err := s.Append(t.Context(), "session.a", []byte(text)); err != nil || sequence != uint64(i+1) {
			t.Fatalf("append: %d, %v", sequence, err)
		}
	}
	if _, err := s.Append(t.Context(), "session.b", []byte("elsewhere")); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var got []string
	next, err := s.Read(t.Context(), "session.a", 2, func(m state.Message) error {
		if got = append(got, string(m.Data)); len(got) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || strings.Join(got, " ") != "two three" || next != 3 {
		t.Errorf("read %v to %d: %v", got, next, err)
	}
}

// TestTLS: both sides have certificates, and a server of another authority is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, stranger := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	pair := authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	own := authority.Issue(t, tlstest.Leaf{})
	n := startNATS(t, func(o *server.Options) {
		o.TLSVerify = true
		o.TLSTimeout = testkit.Limit().Seconds()
		o.TLSConfig = &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair.Certificate(t)}, ClientCAs: authority.Pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}
	})
	url := strings.Replace(n.URL(), "nats://", "tls://", 1)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: url, Tls: &configv1.StateTls{CaFile: authority.File, CertFile: own.CertFile, KeyFile: own.KeyFile}})})
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", nil, time.Hour); err != nil {
		t.Error(err)
	}
	bad := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: url, Tls: &configv1.StateTls{CaFile: stranger.File, CertFile: own.CertFile, KeyFile: own.KeyFile}})})
	testkit.Until(t, "the other authority is refused", func() bool { return strings.Contains(bad.Health().Why, "unknown authority") })
	if _, err := state.Open(state.Options{Config: configtest.Filled(t, &configv1.State{Url: url, Tls: &configv1.StateTls{CaFile: "/none"}}), Sealer: newSealer(t)}); err == nil {
		t.Error("a file that does not exist was accepted")
	}
}
