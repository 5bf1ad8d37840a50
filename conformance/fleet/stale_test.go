// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// formerLeader answers in place of a leader, as a server does that led before and has not heard of its successor.
type formerLeader struct {
	t   *testing.T
	all []*natsServer
	nc  *nats.Conn
	// from is the subject on which the leader is asked, with a wildcard at its end or none.
	from    string
	answers func(*nats.Msg)
}

const formerSubject = "former.leader"

func newFormerLeader(t *testing.T, all []*natsServer, from string) *formerLeader {
	t.Helper()
	nc, err := nats.Connect(all[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	f := &formerLeader{t: t, all: all, nc: nc, from: from}
	if _, err := nc.Subscribe(formerSubject+".>", func(m *nats.Msg) { f.answers(m) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return f
}

// leads has it answer what the leader is asked, until it retires.
func (f *formerLeader) leads(answers func(*nats.Msg)) {
	f.t.Helper()
	f.answers = answers
	to := formerSubject + ".asked"
	if strings.HasSuffix(f.from, "*") {
		to = formerSubject + ".$1"
	}
	for _, n := range f.all {
		if err := n.running.GlobalAccount().AddMapping(f.from, to); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *formerLeader) retires() {
	for _, n := range f.all {
		n.running.GlobalAccount().RemoveMapping(f.from)
	}
}

// pass gives a message to the leader.
func (f *formerLeader) pass(m *nats.Msg) {
	to := strings.TrimSuffix(f.from, "*") + strings.TrimPrefix(m.Subject, formerSubject+".")
	if _, err := f.nc.RequestMsg(&nats.Msg{Subject: to, Header: m.Header, Data: m.Data}, 5*time.Second); err != nil {
		f.t.Error(err)
	}
}

// threeCopies opens a client at a cluster.
func threeCopies(t *testing.T) ([]*natsServer, *state.Client) {
	t.Helper()
	all := startCluster(t)
	var urls []string
	for _, n := range all {
		urls = append(urls, n.URL())
	}
	return all, open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(3)), OperationTimeout: durationpb.New(5 * time.Second)})})
}

// TestAFormerLeaderKnowsNothing: a server that led before, and has not heard of its successor, answers before the leader does that a
// key does not exist. No one learns it.
func TestAFormerLeaderKnowsNothing(t *testing.T) {
	t.Parallel()
	all, c := threeCopies(t)
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "here", []byte("value"), time.Hour); err != nil {
		t.Fatal(err)
	}
	former := newFormerLeader(t, all, "$JS.API.STREAM.MSG.GET.KV_outrigger_default_things")
	var answered atomic.Int32
	former.leads(func(m *nats.Msg) {
		if answered.Add(1) == 3 {
			former.retires()
		}
		_ = m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"description":"no message found"}}`))
	})
	e, err := b.Get(t.Context(), "here")
	if err != nil || string(e.Value) != "value" {
		t.Errorf("got %q, %v", e.Value, err)
	}
	if got := answered.Load(); got < 3 {
		t.Errorf("the former leader was asked %d times", got)
	}
	if _, err := b.Get(t.Context(), "nowhere"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("what does not exist: %v", err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Get(cut, "nowhere"); !errors.Is(err, context.Canceled) {
		t.Errorf("by who has left: %v", err)
	}
}

// TestAFormerLeaderRefuses: a server that led before gets a write as well as the leader does, and refuses it by what it has. Its
// refusal comes first. It counts for nothing, whether the leader stores the write or has never had it.
func TestAFormerLeaderRefuses(t *testing.T) {
	t.Parallel()
	all, c := threeCopies(t)
	b, once := c.Bucket(things()), c.Once(consents())
	healthy(t, c)
	var keys atomic.Int32
	// created makes a key with a value.
	created := func(t *testing.T) (key string, revision uint64) {
		t.Helper()
		key = "k" + strconv.Itoa(int(keys.Add(1)))
		revision, err := b.Create(t.Context(), key, []byte("one"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return key, revision
	}
	value := func(t *testing.T, key, want string) {
		t.Helper()
		e, err := b.Get(t.Context(), key)
		if err != nil || string(e.Value) != want {
			t.Errorf("%s is %q, want %q: %v", key, e.Value, want, err)
		}
	}
	const ofThings, ofConsents = "$KV.outrigger_default_things.*", "$KV.outrigger_default_consents.*"
	for _, row := range []struct {
		name, from string
		// prepare makes what is written to, write writes it.
		prepare func(t *testing.T) (write func(t *testing.T))
	}{
		{"create", ofThings, func(*testing.T) func(*testing.T) {
			key := "k" + strconv.Itoa(int(keys.Add(1)))
			return func(t *testing.T) {
				if _, err := b.Create(t.Context(), key, []byte("one"), time.Hour); err != nil {
					t.Error(err)
				}
				value(t, key, "one")
			}
		}},
		{"create where a key was", ofThings, func(t *testing.T) func(*testing.T) {
			key, _ := created(t)
			if err := b.Delete(t.Context(), key, 0); err != nil {
				t.Fatal(err)
			}
			return func(t *testing.T) {
				if _, err := b.Create(t.Context(), key, []byte("two"), time.Hour); err != nil {
					t.Error(err)
				}
				value(t, key, "two")
			}
		}},
		{"update", ofThings, func(t *testing.T) func(*testing.T) {
			key, revision := created(t)
			return func(t *testing.T) {
				now, err := b.Update(t.Context(), key, []byte("two"), revision, time.Hour)
				if err != nil {
					t.Error(err)
				}
				value(t, key, "two")
				if _, err := b.Update(t.Context(), key, []byte("three"), now, time.Hour); err != nil {
					t.Errorf("with the revision that was returned: %v", err)
				}
			}
		}},
		{"delete", ofThings, func(t *testing.T) func(*testing.T) {
			key, revision := created(t)
			return func(t *testing.T) {
				if err := b.Delete(t.Context(), key, revision); err != nil {
					t.Error(err)
				}
				if _, err := b.Get(t.Context(), key); !errors.Is(err, state.ErrNotFound) {
					t.Errorf("afterwards: %v", err)
				}
			}
		}},
		{"use of a token", ofConsents, func(*testing.T) func(*testing.T) {
			token := "token " + strconv.Itoa(int(keys.Add(1)))
			return func(t *testing.T) {
				if fresh, err := once.Spend(t.Context(), token, time.Now().Add(time.Hour)); err != nil || !fresh {
					t.Errorf("the first use: %v, %v", fresh, err)
				}
				if fresh, err := once.Spend(t.Context(), token, time.Now().Add(time.Hour)); err != nil || fresh {
					t.Errorf("the second use: %v, %v", fresh, err)
				}
			}
		}},
	} {
		for _, stored := range []bool{true, false} {
			t.Run(row.name+map[bool]string{true: ", and the leader stores it", false: ", and the leader has not had it"}[stored], func(t *testing.T) {
				write := row.prepare(t)
				former := newFormerLeader(t, all, row.from)
				var refuse sync.Once
				refused := false
				former.leads(func(m *nats.Msg) {
					refuse.Do(func() {
						refused = true
						former.retires()
						if stored {
							former.pass(m)
						}
					})
					_ = m.Respond([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"},"stream":"one","seq":0}`))
				})
				write(t)
				refuse.Do(func() {}) // behind it, no one writes refused
				if !refused {
					t.Error("nothing was refused")
				}
			})
		}
	}

	// What the leader refuses, too, is refused, and soon.
	key, revision := created(t)
	if _, err := b.Update(t.Context(), key, []byte("two"), revision, time.Hour); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := b.Create(t.Context(), key, []byte("x"), time.Hour); !errors.Is(err, state.ErrExists) {
		t.Errorf("create: %v", err)
	}
	if _, err := b.Update(t.Context(), key, []byte("x"), revision, time.Hour); !errors.Is(err, state.ErrConflict) {
		t.Errorf("update: %v", err)
	}
	if _, err := b.Update(t.Context(), "nowhere", []byte("x"), revision, time.Hour); !errors.Is(err, state.ErrConflict) {
		t.Errorf("update of nothing: %v", err)
	}
	if err := b.Delete(t.Context(), key, revision); !errors.Is(err, state.ErrConflict) {
		t.Errorf("delete: %v", err)
	}
	value(t, key, "two")
	if took := time.Since(began); took > 5*time.Second { // the timeout of one
		t.Errorf("refusals took %v", took)
	}
}

// TestARefusalThatNothingExplains: a leader that stays cut off refuses the second try of a use because it has the first, which it
// cannot store. The token does not count as used for that.
func TestARefusalThatNothingExplains(t *testing.T) {
	t.Parallel()
	all, c := threeCopies(t)
	once := c.Once(consents())
	healthy(t, c)
	former := newFormerLeader(t, all, "$KV.outrigger_default_consents.*")
	former.leads(func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"KV_outrigger_default_consents","seq":0}`))
	})
	later := time.Now().Add(time.Hour)
	if fresh, err := once.Spend(t.Context(), "token", later); fresh || !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("while a former leader refuses it: %v, %v", fresh, err)
	}
	former.retires()
	testkit.Until(t, "the token is used", func() bool {
		fresh, err := once.Spend(t.Context(), "token", later)
		if err == nil && !fresh {
			t.Fatal("the token counts as used, and was never used")
		}
		return fresh
	})
}

// TestManyWritersOfOneKey: each write that was acknowledged is there once, however many writers meet, and the refused ones soon hear so.
func TestManyWritersOfOneKey(t *testing.T) {
	t.Parallel()
	_, c := threeCopies(t)
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "count", []byte("0"), time.Hour); err != nil {
		t.Fatal(err)
	}
	const writers, each = 32, 5
	var conflicts, slowest atomic.Int64
	increment := func() error {
		for {
			e, err := b.Get(t.Context(), "count")
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(e.Value))
			if err != nil {
				return err
			}
			began := time.Now()
			_, err = b.Update(t.Context(), "count", []byte(strconv.Itoa(n+1)), e.Revision, time.Hour)
			if !errors.Is(err, state.ErrConflict) {
				return err
			}
			conflicts.Add(1)
			for took := int64(time.Since(began)); ; {
				most := slowest.Load()
				if took <= most || slowest.CompareAndSwap(most, took) {
					break
				}
			}
		}
	}
	began := time.Now()
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				if err := increment(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	e, err := b.Get(t.Context(), "count")
	if err != nil || string(e.Value) != strconv.Itoa(writers*each) {
		t.Errorf("counted %q, want %d: %v", e.Value, writers*each, err)
	}
	t.Logf("%d writes in %v, %d conflicts, the slowest after %v", writers*each, time.Since(began).Round(time.Millisecond), conflicts.Load(), time.Duration(slowest.Load()))
}
