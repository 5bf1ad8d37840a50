// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// crashed is another server with what the disk of this one has now, as after a kill -9.
func (n *natsServer) crashed(t *testing.T) *natsServer {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(n.options.StoreDir)); err != nil {
		t.Fatal(err)
	}
	return startNATS(t, func(o *server.Options) { o.StoreDir = dir })
}

// TestAKilledServerRemembers: a NATS server that was killed brings back a deleted value whose delete marker has expired. So a marker
// expires after the value, and after everything that was ever stored under its key.
func TestAKilledServerRemembers(t *testing.T) {
	t.Parallel()
	t.Run("what NATS does", func(t *testing.T) {
		t.Parallel()
		n := startNATS(t, nil)
		js := n.admin()
		s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "T", Subjects: []string{"t.>"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true, AllowRollup: true, SubjectDeleteMarkerTTL: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 { // so that the block of messages is not written anew
			if _, err := js.Publish(t.Context(), fmt.Sprint("t.", i), make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "t.k", Data: []byte("deleted")}, jetstream.WithMsgTTL(time.Hour)); err != nil {
			t.Fatal(err)
		}
		marker := &nats.Msg{Subject: "t.k", Header: nats.Header{"KV-Operation": {"PURGE"}, "Nats-Rollup": {"sub"}}}
		if _, err := js.PublishMsg(t.Context(), marker, jetstream.WithMsgTTL(time.Second)); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the marker has expired", func() bool {
			_, err := s.GetLastMsgForSubject(t.Context(), "t.k")
			return errors.Is(err, jetstream.ErrMsgNotFound)
		})
		back, err := n.crashed(t).admin().Stream(t.Context(), "T")
		if err != nil {
			t.Fatal(err)
		}
		if m, err := back.GetLastMsgForSubject(t.Context(), "t.k"); err == nil {
			t.Logf("after a kill -9, NATS has %q again", m.Data)
		} else {
			t.Logf("after a kill -9: %v; this version of NATS may need no such care", err)
		}
	})

	n := startNATS(t, nil)
	sealer := newSealer(t)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer})
	aged, ageless := c.Bucket(things()), c.Bucket(state.BucketOptions{Name: "ageless", MaxBytes: 1 << 20})
	tasks := openTasks(t, c, taskstore.Options{})
	healthy(t, c)
	js := n.admin()
	// ends is when NATS deletes what it has of a key.
	ends := func(kind, key string) time.Time {
		t.Helper()
		s, err := js.Stream(t.Context(), "KV_outrigger_default_"+kind)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), "$KV.outrigger_default_"+kind+"."+key)
		if err != nil {
			t.Fatal(err)
		}
		lifetime, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
		if err != nil {
			lifetime = 24 * time.Hour // never: no test takes as long as a delete marker lives
		}
		return m.Time.Add(lifetime)
	}
	now := timestamppb.Now()
	record := task.Record{
		ID: "a", Principal: "ann", Tool: "t", Keep: time.Minute, Timeout: time.Hour, Expires: time.Now().Add(time.Hour + time.Minute),
		Task: &outriggerv1.Task{TaskId: "a", Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, CreatedAt: now, LastUpdatedAt: now},
	}
	for _, tc := range []struct {
		kind, key      string
		create, remove func() error
	}{
		{"things", "k", func() error {
			_, err := aged.Create(t.Context(), "k", []byte("value"), time.Hour)
			return err
		}, func() error { return aged.Delete(t.Context(), "k", 0) }},
		{"ageless", "k", func() error {
			_, err := ageless.Create(t.Context(), "k", []byte("value"), state.Forever)
			return err
		}, func() error { return ageless.Delete(t.Context(), "k", 0) }},
		{"ageless", "by-hand", func() error {
			_, err := ageless.Create(t.Context(), "by-hand", []byte("value"), 2*time.Hour)
			return err
		}, func() error {
			e, err := ageless.Get(t.Context(), "by-hand")
			if err != nil {
				return err
			}
			i := inspect(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer})
			i.Bucket(state.BucketOptions{Name: "ageless", MaxBytes: 1 << 20})
			return i.Remove(t.Context(), "ageless", "by-hand", e.Revision)
		}},
		{"tasks", "a", func() error { return tasks.Create(t.Context(), record) }, func() error {
			// The end of a task expires before the record of its work would have.
			r, err := tasks.Get(t.Context(), "a")
			if err != nil {
				return err
			}
			r.Task.Status, r.Expires = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED, time.Now().Add(r.Keep)
			return tasks.Update(t.Context(), r)
		}},
		{"tasks", "a", func() error { return nil }, func() error { return tasks.Delete(t.Context(), "a") }},
	} {
		if err := tc.create(); err != nil {
			t.Fatalf("%s: %v", tc.kind, err)
		}
		value := ends(tc.kind, tc.key)
		if err := tc.remove(); err != nil {
			t.Fatalf("%s: %v", tc.kind, err)
		}
		if marker := ends(tc.kind, tc.key); marker.Before(value) {
			t.Errorf("%s/%s: the value expires at %v, and what replaces it at %v", tc.kind, tc.key, value, marker)
		}
	}
}

// TestNothingRestoresWhatWasDeleted: a replica stores a tool again that the store has lost, or let expire. One that was
// deleted meanwhile stays deleted.
func TestNothingRestoresWhatWasDeleted(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	b := c.Bucket(things())
	healthy(t, c)
	ctx := t.Context()
	for key, end := range map[string]func() error{
		"deleted": func() error { return b.Delete(ctx, "deleted", 0) },
		"expired": func() error {
			testkit.Until(t, "the value expires", func() bool {
				_, err := b.Get(ctx, "expired")
				return errors.Is(err, state.ErrNotFound)
			})
			return nil
		},
	} {
		if _, err := b.Create(ctx, key, []byte("first"), time.Second); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		switch _, err := b.Restore(ctx, key, []byte("again"), time.Hour); {
		case key == "deleted" && !errors.Is(err, state.ErrNotFound):
			t.Errorf("what was deleted is restored: %v", err)
		case key == "expired" && err != nil:
			t.Errorf("what has expired: %v", err)
		}
	}
	if _, err := b.Restore(ctx, "expired", []byte("once more"), time.Hour); !errors.Is(err, state.ErrExists) {
		t.Errorf("what is there: %v", err)
	}
	if _, err := b.Create(ctx, "deleted", []byte("new"), time.Hour); err != nil {
		t.Errorf("a new value of a key that was deleted: %v", err)
	}
}
