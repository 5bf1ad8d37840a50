// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// damaged is a cluster with a server whose disk was damaged while it was down.
type damaged struct {
	*natsCluster
	victim *natsServer
	opts   state.Options
	things *state.Bucket
}

const (
	// kept is how many keys are written before the damage, later how many while the server is down.
	kept, later = 100, 10
	// thingsStream is the stream of the things.
	thingsStream = "KV_outrigger_default_things"
)

func keptKey(i int) string   { return fmt.Sprint("k", i) }
func keptValue(i int) string { return fmt.Sprint("value ", i, strings.Repeat(" and so on", 50)) }

// damagedThings is the bucket of these tests.
func damagedThings() state.BucketOptions {
	return state.BucketOptions{Name: "things", MaxBytes: 4 << 20, MaxAge: time.Hour}
}

// damage ends a follower, damages the block of its messages, and starts it again. It ends cleanly: a server that was killed has
// the messages in the log of the group, too, and makes the damage good by it.
func damage(t *testing.T, how func(block []byte) []byte) *damaged {
	t.Helper()
	d := &damaged{natsCluster: startCluster(t, loopback)}
	var urls []string
	for _, n := range d.all {
		urls = append(urls, "nats://"+n.client)
	}
	d.opts = state.Options{Config: configtest.Filled(t, &configv1.State{Url: strings.Join(urls, ","), Replicas: new(int32(servers)), OperationTimeout: durationpb.New(5 * time.Second)}), Sealer: keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()})}
	c := open(t, d.opts.Sealer, d.all...)
	d.things = c.Bucket(damagedThings())
	testkit.Until(t, "the state is available", func() bool { return c.Health().OK })
	for i := range kept {
		if _, err := d.things.Create(t.Context(), keptKey(i), []byte(keptValue(i)), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	d.whole()
	leader := d.leader(thingsStream)
	for _, n := range d.all {
		if n != leader {
			d.victim = n
		}
	}
	d.victim.signal(syscall.SIGTERM)
	for i := range later {
		testkit.Until(t, "a write while the server is down", func() bool {
			_, err := d.things.Create(t.Context(), fmt.Sprint("later", i), []byte("later"), time.Hour)
			return err == nil || errors.Is(err, state.ErrExists)
		})
	}
	d.victim.damage(how)
	d.victim.start()
	return d
}

// damage changes the newest block of messages of each stream, while the server is down.
func (s *natsServer) damage(how func(block []byte) []byte) {
	s.t.Helper()
	folders, err := filepath.Glob(filepath.Join(s.disk, "jetstream", "$G", "streams", "*", "msgs"))
	if err != nil || len(folders) == 0 {
		s.t.Errorf("%s keeps no streams: %v", s.name, err)
	}
	for _, folder := range folders {
		blocks, _ := filepath.Glob(filepath.Join(folder, "*.blk"))
		if len(blocks) == 0 {
			continue
		}
		path := slices.MaxFunc(blocks, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		block, err := os.ReadFile(path)
		if err == nil && len(block) > 0 {
			err = os.WriteFile(path, how(block), 0o600)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
}

// flipped has another bit in its middle, truncated only its first half.
func flipped(block []byte) []byte {
	block[len(block)/2] ^= 1
	return block
}

func truncated(block []byte) []byte { return block[:len(block)/2] }

// isWhole reports whether all copies are current, by the word of the leader.
func (d *damaged) isWhole() bool {
	return d.admin(func(ctx context.Context, _ *nats.Conn, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, thingsStream)
		if err != nil {
			return err //nolint:wrapcheck // it is tried again
		}
		for _, peer := range s.CachedInfo().Cluster.Replicas {
			if !peer.Current || peer.Offline {
				return errors.New(peer.Name)
			}
		}
		return nil
	}) == nil
}

// lead has a server lead the things.
func (d *damaged) lead(n *natsServer) {
	d.t.Helper()
	testkit.Until(d.t, n.name+" leads", func() bool {
		leader := d.leader(thingsStream)
		if leader != nil && leader != n {
			_ = d.admin(func(ctx context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
				_, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+thingsStream, fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, n.name))
				return err //nolint:wrapcheck // it is tried again
			})
		}
		return leader == n
	})
}

// verify is what `sidecar state verify` warns of.
func (d *damaged) verify() (warnings string) {
	d.t.Helper()
	i, err := state.Inspect(d.opts)
	if err != nil {
		return err.Error()
	}
	defer i.Close()
	i.Bucket(damagedThings())
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	i.Verify(ctx, state.VerifyOptions{MaxValues: 1000}, func(f state.Finding) {
		if f.Level == state.LevelWarn || f.Level == state.LevelFail {
			warnings += f.Text + "\n"
		}
	})
	return warnings
}

// missing are the keys that are not found. All others have their values.
func (d *damaged) missing() []int {
	d.t.Helper()
	var out []int
	for i := range kept {
		e, err := d.read(keptKey(i))
		switch {
		case errors.Is(err, state.ErrNotFound):
			out = append(out, i)
		case err != nil || string(e.Value) != keptValue(i):
			d.t.Errorf("%s is %q, %v", keptKey(i), e.Value, err)
		}
	}
	for i := range later {
		if e, err := d.read(fmt.Sprint("later", i)); err != nil || string(e.Value) != "later" {
			d.t.Errorf("a key that was written while the server was down: %q, %v", e.Value, err)
		}
	}
	return out
}

// read reads a key, as soon as there is an answer.
func (d *damaged) read(key string) (e state.Entry, err error) {
	d.t.Helper()
	testkit.Until(d.t, key+" is read", func() bool {
		e, err = d.things.Get(d.t.Context(), key)
		return !errors.Is(err, state.ErrUnavailable)
	})
	return e, err
}

// replace does what an operator has to after such a damage: the server starts with an empty disk, and the others fill it.
func (s *natsServer) replace() {
	s.t.Helper()
	s.wipe()
	s.start()
}

// wipe kills the server and empties its disk.
func (s *natsServer) wipe() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	if err := os.RemoveAll(filepath.Join(s.disk, "jetstream")); err != nil {
		s.t.Error(err)
	}
}

// replaced replaces the disk, and looks at everything once more.
func (d *damaged) replaced() {
	d.t.Helper()
	d.victim.wipe()
	// Until the leader has noticed, it counts the copy of before as current. A server with an empty disk cannot lead, and each
	// request that it does interrupts those who fill it.
	testkit.Until(d.t, "the leader misses the copy", func() bool { return !d.isWhole() })
	d.victim.start()
	d.whole()
	for _, n := range []*natsServer{d.victim, d.others()[0]} {
		d.lead(n)
		if lost := d.missing(); len(lost) > 0 {
			d.t.Errorf("%d keys are missing at %s", len(lost), n.name)
		}
	}
	testkit.Try(d.t, "verify warns of nothing", func() error {
		if text := d.verify(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

func (d *damaged) others() []*natsServer {
	var out []*natsServer
	for _, n := range d.all {
		if n != d.victim {
			out = append(out, n)
		}
	}
	return out
}

// TestAFlippedBit: NATS finds a bit that was flipped in the messages of a copy, and does not use that copy. No answer is wrong or
// missing, `sidecar state verify` says which copy it is, and with an empty disk the server gets a new one.
func TestAFlippedBit(t *testing.T) {
	t.Parallel()
	d := damage(t, flipped)
	testkit.Until(t, "verify finds the copy", func() bool { return strings.Contains(d.verify(), "the copy at "+d.victim.name) })
	if lost := d.missing(); len(lost) > 0 {
		t.Errorf("%d keys are missing", len(lost))
	}
	if d.isWhole() {
		t.Error("the copy is used")
	}
	d.replaced()
}

// TestATruncatedBlock: a known loss of NATS 2.15. A server whose block of messages was truncated starts with what is left, counts as
// current, and says as the leader that the rest does not exist. No value is another one, the others still have everything, and
// with an empty disk the server gets it back. If this fails because nothing is lost any more, docs/shared-state.md can lose its
// warning.
func TestATruncatedBlock(t *testing.T) {
	t.Parallel()
	d := damage(t, truncated)
	testkit.Until(t, "the copy counts as current", d.isWhole)
	d.lead(d.victim)
	lost := d.missing()
	if len(lost) == 0 || lost[0] < kept/2-5 || len(lost) > kept/2+5 {
		t.Errorf("the missing keys are not those of the second half: %v", lost)
	}
	for i := range later {
		if _, err := d.things.Create(t.Context(), fmt.Sprint("later", i), nil, time.Hour); !errors.Is(err, state.ErrExists) {
			t.Errorf("a key that was written while the server was down: %v", err)
		}
	}
	d.lead(d.others()[0])
	if lost := d.missing(); len(lost) > 0 {
		t.Errorf("%d keys are missing where nothing was damaged", len(lost))
	}
	d.replaced()
}
