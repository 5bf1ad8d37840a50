// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestTheModelIsTrue plays the same schedule on the model of NATS and on three real servers, and compares what clients saw. Where
// they differ, the model is wrong. One operation runs at a time, and the cluster settles after each fault, so that the outcome is
// determined. Not compared, because they depend on the time or on chance: times, names of consumers, which server leads, texts
// of errors, whether a write succeeds whose leader finds its disk full, and revisions of internal/state, of which only the order
// counts: it writes to confirm reads.
func TestTheModelIsTrue(t *testing.T) {
	t.Parallel()
	first, n := cmp.Or(uint64(*seed), 4), uint64(4) // four seeds have all slow faults between them
	if *duration >= longRun {
		n = 12
	}
	// They wait for elections most of the time, so they run side by side, however few tests do.
	var all sync.WaitGroup
	defer all.Wait()
	for s := first; s < first+n; s++ {
		all.Go(func() { t.Run(fmt.Sprint("seed ", s), func(t *testing.T) { compare(t, s) }) })
	}
}

// compare plays one schedule.
func compare(t *testing.T, s uint64) {
	t.Helper()
	var modelled []string
	synctest.Test(t, func(t *testing.T) {
		c := natsmodel.New(natsmodel.Options{Servers: servers}, time.Now(), rand.New(rand.NewPCG(s, 3)))
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		modelled = play(t, s, &modelRig{c: c, d: c.Run(ctx)})
	})
	if t.Failed() {
		return
	}
	compared := play(t, s, &realRig{natsCluster: startCluster(t, loopback)})
	t.Logf("%d results", len(compared))
	if diff := gocmp.Diff(modelled, compared); diff != "" {
		t.Errorf("the model (-) and three servers (+) differ:\n%s", diff)
	}
}

// stage is three servers, real ones or those of the model.
type stage interface {
	urls(servers ...int) string
	options() []nats.Option
	dialer() nats.CustomDialer
	// leader is the server that leads a stream; -1 if none says so.
	leader(stream string) int
	stepDown(stream string)
	stop(server int, sig syscall.Signal)
	start(server int)
	pause(server int, is bool)
	// cut cuts the ways from a server to the others, or mends them.
	cut(server int, is bool)
	// fill fills the disk of a server, if it has one.
	fill(server int, is bool)
}

type modelRig struct {
	c *natsmodel.Cluster
	d *natsmodel.Driver
}

func (r *modelRig) urls(all ...int) string    { return r.c.URL(all...) }
func (r *modelRig) options() []nats.Option    { return []nats.Option{nats.SetCustomDialer(r.d)} }
func (r *modelRig) dialer() nats.CustomDialer { return r.d }
func (r *modelRig) stepDown(stream string)    { r.d.Do(func(c *natsmodel.Cluster) { c.StepDown(stream) }) }
func (r *modelRig) start(server int)          { r.d.Do(func(c *natsmodel.Cluster) { c.Start(server) }) }

func (r *modelRig) leader(stream string) (at int) {
	r.d.Do(func(c *natsmodel.Cluster) { at = c.Leader(stream) })
	return at
}

func (r *modelRig) stop(server int, sig syscall.Signal) {
	how := natsmodel.Term
	if sig == syscall.SIGKILL {
		how = natsmodel.Kill
	}
	r.d.Do(func(c *natsmodel.Cluster) { c.Stop(server, how) })
}

func (r *modelRig) pause(server int, is bool) {
	r.d.Do(func(c *natsmodel.Cluster) {
		if is {
			c.Pause(server)
		} else {
			c.Resume(server)
		}
	})
}

func (r *modelRig) cut(server int, is bool) {
	r.d.Do(func(c *natsmodel.Cluster) {
		for other := range servers {
			switch {
			case other == server:
			case is:
				c.Cut(server, other)
			default:
				c.Heal(server, other)
			}
		}
	})
}

func (r *modelRig) fill(server int, is bool) {
	r.d.Do(func(c *natsmodel.Cluster) {
		if is {
			c.Fill(server)
		} else {
			c.Free(server)
		}
	})
}

type realRig struct{ *natsCluster }

func (r *realRig) urls(all ...int) string {
	var out []string
	for i, s := range r.all {
		if len(all) == 0 || slices.Contains(all, i) {
			out = append(out, "nats://"+s.client)
		}
	}
	return strings.Join(out, ",")
}

func (*realRig) options() []nats.Option    { return nil }
func (*realRig) dialer() nats.CustomDialer { return nil }
func (r *realRig) start(server int)        { r.all[server].start() }

func (r *realRig) leader(stream string) int {
	return slices.Index(r.all, r.natsCluster.leader(stream))
}

func (r *realRig) stepDown(stream string) {
	if err := r.natsCluster.stepDown(stream); err != nil {
		r.t.Error(err)
	}
}

func (r *realRig) stop(server int, sig syscall.Signal) { r.all[server].signal(sig) }

func (r *realRig) pause(server int, is bool) {
	sig := syscall.SIGCONT
	if is {
		sig = syscall.SIGSTOP
	}
	r.all[server].signal(sig)
}

func (r *realRig) cut(server int, is bool) {
	for i, s := range r.all {
		for j, l := range s.routes {
			switch {
			case i != server && j != server:
			case is:
				l.cut()
			default:
				l.mend()
			}
		}
	}
}

func (r *realRig) fill(server int, is bool) {
	s := r.all[server]
	switch {
	case !s.hasDisk: // as good as it gets: JetStream is off there, and so is the rest
		if is {
			s.signal(syscall.SIGKILL)
		}
	case is:
		if err := s.fill(); err != nil {
			r.t.Error(err)
		}
	default:
		s.empty()
	}
}

// player plays a schedule.
type player struct {
	stage

	t   *testing.T
	rng *rand.Rand
	// away are servers that nothing is asked of.
	away   map[int]bool
	sealer *keys.Sealer
	trace  []string
	// last are the last sequences of subjects, as the player knows them.
	last map[string]uint64

	nc   *nats.Conn
	js   jetstream.JetStream
	a, b *stateClient
	// again is a message that is to be published again, by its id.
	again   *nats.Msg
	revised []uint64 // revisions of internal/state, in the order in which they were given
}

// play plays the schedule of a seed, and returns what clients saw.
func play(t *testing.T, seed uint64, r stage) []string {
	t.Helper()
	p := &player{
		stage: r, t: t, rng: rand.New(rand.NewPCG(seed, 1)), away: map[int]bool{}, last: map[string]uint64{},
		sealer: keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys()}),
	}
	p.connect()
	defer p.disconnect()
	p.make()
	slow := []string{"kill the leader", "pause the leader", "cut the leader off", "fill the disk of the leader"}
	quick := []string{"step down", "end the leader", "kill a follower"}
	p.rng.Shuffle(len(quick), func(i, j int) { quick[i], quick[j] = quick[j], quick[i] })
	p.operations(30)
	for _, fault := range []string{quick[0], slow[seed%4]} {
		p.note("fault", fault, nil)
		mend := p.inject(fault)
		p.disconnect()
		p.settled()
		p.connect()
		if p.again != nil {
			if _, err := p.js.PublishMsg(p.t.Context(), p.again, jetstream.WithMsgID("full")); err != nil {
				p.t.Error(err)
			}
			p.again = nil
		}
		p.operations(15)
		mend()
		clear(p.away)
		p.settled()
		if strings.HasPrefix(fault, "pause") || strings.HasPrefix(fault, "cut") {
			// The server comes back with a newer term. The leader of the list of streams hears of it with its next heartbeat.
			time.Sleep(2 * time.Second)
			p.settled()
		}
		p.operations(8)
	}
	return p.trace
}

// available are the servers that something is asked of.
func (p *player) available() []int {
	var out []int
	for i := range servers {
		if !p.away[i] {
			out = append(out, i)
		}
	}
	return out
}

// names are their names.
func (p *player) names() []string {
	var out []string
	for _, i := range p.available() {
		out = append(out, fmt.Sprint("n", i))
	}
	return out
}

// inject breaks something, and returns what mends it.
func (p *player) inject(fault string) (mend func()) {
	stream := p.streams()[p.rng.IntN(len(p.streams()))]
	if fault == "fill the disk of the leader" {
		stream = "outrigger_default_log" // which is written to, so that the server finds out
	}
	at := -1
	testkit.Until(p.t, "a leader of "+stream, func() bool { at = p.leader(stream); return at >= 0 })
	switch fault {
	case "step down":
		p.stepDown(stream)
		return func() {}
	case "end the leader":
		p.stop(at, syscall.SIGTERM)
	case "kill a follower":
		at = (at + 1 + p.rng.IntN(2)) % servers
		p.stop(at, syscall.SIGKILL)
	case "kill the leader":
		p.stop(at, syscall.SIGKILL)
	case "pause the leader":
		p.pause(at, true)
		p.away[at] = true
		return func() { p.pause(at, false) }
	case "cut the leader off":
		p.cut(at, true)
		p.away[at] = true
		return func() { p.cut(at, false) }
	case "fill the disk of the leader":
		p.fill(at, true)
		p.away[at] = true
		// The others may get the message or not, and a new leader may acknowledge it. With its id, it is there once in the end.
		p.again = &nats.Msg{Subject: stream + ".full", Data: make([]byte, 100<<10)}
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		_, _ = p.js.PublishMsg(ctx, p.again, jetstream.WithMsgID("full"))
		return func() {
			p.fill(at, false)
			p.stop(at, syscall.SIGTERM)
			p.start(at)
		}
	}
	p.away[at] = true
	return func() { p.start(at) }
}

// settled waits until every stream has a leader among the available servers, which all others of them follow.
func (p *player) settled() {
	p.t.Helper()
	testkit.Try(p.t, "the cluster has settled", func() error {
		nc, err := nats.Connect(p.urls(p.available()...), append(p.options(), nats.Timeout(2*time.Second))...)
		if err != nil {
			return err //nolint:wrapcheck // it is printed
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err //nolint:wrapcheck // it is printed
		}
		ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Second)
		defer cancel()
		if _, err := js.AccountInfo(ctx); err != nil {
			return err //nolint:wrapcheck // it is printed
		}
		for _, name := range p.streams() {
			s, err := js.Stream(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			is, current := s.CachedInfo().Cluster, 1
			for _, peer := range is.Replicas {
				if peer.Current && !peer.Offline && peer.Active < 3*time.Second {
					current++
				}
			}
			if !slices.Contains(p.names(), is.Leader) || current < len(p.available()) {
				return fmt.Errorf("%s: %s leads %d", name, is.Leader, current)
			}
		}
		return nil
	})
}

// stateClient is a client of internal/state with what it declares.
type stateClient struct {
	c      *state.Client
	things *state.Bucket
	log    *state.Stream
	once   *state.Once
	stop   func()
}

// connect connects the clients to available servers.
func (p *player) connect() {
	p.t.Helper()
	var err error
	urls := p.urls(p.available()...)
	testkit.Try(p.t, "connect", func() error {
		p.nc, err = nats.Connect(urls, append(p.options(), nats.Timeout(2*time.Second))...)
		return err //nolint:wrapcheck // it is printed
	})
	if p.js, err = jetstream.New(p.nc); err != nil {
		p.t.Fatal(err)
	}
	p.a, p.b = p.openState(urls), p.openState(urls)
	testkit.Until(p.t, "the state is available", func() bool { return p.a.c.Health().OK && p.b.c.Health().OK })
}

func (p *player) openState(urls string) *stateClient {
	p.t.Helper()
	c, err := state.Open(state.Options{Config: configtest.Filled(p.t, &configv1.State{Url: urls, Replicas: new(int32(servers))}), Sealer: p.sealer, Dialer: p.dialer()})
	if err != nil {
		p.t.Fatal(err)
	}
	s := &stateClient{
		c: c, things: c.Bucket(state.BucketOptions{Name: "things", MaxBytes: 1 << 20, MaxAge: time.Hour}),
		log:  c.Stream(state.StreamOptions{Name: "log", MaxBytes: 1 << 20, MaxAge: time.Hour}),
		once: c.Once(state.OnceOptions{Name: "consents", MaxBytes: 1 << 20, MaxAge: time.Hour}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
		c.Close()
	}
	return s
}

func (p *player) disconnect() {
	if p.a == nil {
		return
	}
	p.a.stop()
	p.b.stop()
	p.nc.Close()
	p.a, p.b = nil, nil
}
