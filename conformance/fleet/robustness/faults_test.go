// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"slices"
	"strings"
	"syscall"
	"time"
)

// streams are those of the deployment whose leaders are broken.
func streams() []string {
	return []string{
		"KV_outrigger_default_tasks", "KV_outrigger_default_owners", "KV_outrigger_default_consents", "KV_outrigger_default_registrations", "outrigger_default_events",
		"KV_outrigger_default_ended",
	}
}

// breakage is a fault, which is healed when inject returns.
type breakage struct {
	name string
	// ofReplica: a replica stops, so that calls to it fail. All others are faults of NATS and of the ways to it.
	ofReplica bool
	inject    func(r *run, lasts time.Duration)
}

// isAlone reports whether the fault takes one copy of everything away, so that no other one may take a second at the same time.
func (b breakage) isAlone() bool {
	return b.name == "nats-flipped-bit" || b.name == "nats-truncated-block"
}

// breakages are all faults.
func breakages() []breakage {
	return []breakage{
		{"kill", true, func(r *run, lasts time.Duration) {
			i := r.rand.IntN(replicas)
			r.f.end(i, syscall.SIGKILL)
			r.wait(lasts)
			r.f.start(i)
		}},
		{"drain", true, func(r *run, lasts time.Duration) {
			i := r.rand.IntN(replicas)
			r.f.end(i, syscall.SIGTERM)
			r.wait(lasts)
			r.f.start(i)
		}},
		{"stop", true, func(r *run, lasts time.Duration) {
			s := r.f.replica(r.rand.IntN(replicas))
			s.Signal(r.t, syscall.SIGSTOP)
			r.wait(lasts)
			s.Signal(r.t, syscall.SIGCONT)
		}},
		{"cut", false, func(r *run, lasts time.Duration) { r.links(r.linksOfOne(), (*link).cut, lasts) }},
		{"freeze", false, func(r *run, lasts time.Duration) { r.links(r.linksOfOne(), (*link).freeze, lasts) }},
		{"slow", false, func(r *run, lasts time.Duration) {
			latency := 20 + r.rand.IntN(400)
			r.links(r.linksOfOne(), func(l *link) { l.slow(latency, latency/2) }, lasts)
		}},
		{"split", false, func(r *run, lasts time.Duration) { r.links(r.routesOfOne(), (*link).cut, lasts) }},
		{"split-frozen", false, func(r *run, lasts time.Duration) { r.links(r.routesOfOne(), (*link).freeze, lasts) }},
		{"slow-cluster", false, func(r *run, lasts time.Duration) {
			r.links(r.routesOfOne(), func(l *link) { l.slow(100, 80) }, lasts)
		}},
		{"nats-kill", false, func(r *run, lasts time.Duration) {
			s := r.f.nats.all[r.rand.IntN(servers)]
			s.signal(syscall.SIGKILL)
			r.wait(lasts)
			s.start()
		}},
		{"nats-leader-kill", false, func(r *run, lasts time.Duration) {
			if s := r.leader(); s != nil {
				s.signal(syscall.SIGKILL)
				r.wait(lasts)
				s.start()
			}
		}},
		{"nats-leader-stop", false, func(r *run, lasts time.Duration) {
			if s := r.leader(); s != nil {
				s.signal(syscall.SIGSTOP)
				r.wait(lasts)
				s.signal(syscall.SIGCONT)
			}
		}},
		{"nats-leader-moves", false, func(r *run, _ time.Duration) {
			for _, stream := range streams() {
				if err := r.f.nats.stepDown(stream); err != nil {
					r.t.Logf("step down: %v", err)
				}
			}
		}},
		{"nats-away", false, func(r *run, lasts time.Duration) {
			sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[r.rand.IntN(2)]
			for _, s := range r.f.nats.all {
				s.signal(sig)
			}
			for i := range replicas {
				r.f.degraded(i)
			}
			r.wait(lasts)
			for _, s := range r.f.nats.all {
				s.start()
			}
		}},
		{"disk-full", false, func(r *run, lasts time.Duration) {
			s := r.leader()
			if s == nil || !s.hasDisk {
				return
			}
			if err := s.fill(); err != nil {
				r.t.Error(err)
			}
			r.wait(lasts)
			if !s.isShort() {
				r.t.Logf("%s has not noticed that its disk was full for %v", s.name, lasts)
			}
			s.empty()
			// A server that found no room has switched JetStream off, and an operator starts it again.
			s.signal(syscall.SIGTERM)
			s.start()
		}},
		// NATS does not use a copy in which it finds a bit that was flipped. The operator finds it, too, and replaces the disk.
		{"nats-flipped-bit", false, func(r *run, lasts time.Duration) {
			s := r.damaged(syscall.SIGTERM, flipped)
			s.start()
			r.wait(lasts)
			s.replace()
			r.f.nats.whole()
		}},
		// A copy in which NATS finds no fault, although half of it is missing: see TestATruncatedBlock. Only an operator keeps it out.
		{"nats-truncated-block", false, func(r *run, lasts time.Duration) {
			s := r.damaged(syscall.SIGKILL, truncated)
			r.wait(lasts)
			s.replace()
			r.f.nats.whole()
		}},
	}
}

// damaged ends a server and damages its disk. Its copies are not the only ones.
func (r *run) damaged(sig syscall.Signal, how func([]byte) []byte) *natsServer {
	r.f.nats.whole()
	s := r.f.nats.all[r.rand.IntN(servers)]
	s.signal(sig)
	s.damage(how)
	return s
}

// chosen are the faults of this run.
func (r *run) chosen() []breakage {
	all := breakages()
	if *only == "" {
		return all
	}
	names := strings.Split(*only, ",")
	all = slices.DeleteFunc(all, func(b breakage) bool { return !slices.Contains(names, b.name) })
	if len(all) != len(names) {
		r.t.Fatalf("-faults %s: some are unknown", *only)
	}
	return all
}

// linksOfOne are the ways from one replica to all servers, or to one.
func (r *run) linksOfOne() []*link {
	ways := r.f.links[r.rand.IntN(replicas)][:]
	if at := r.rand.IntN(2 * servers); at < servers {
		return ways[at : at+1]
	}
	return ways
}

// routesOfOne are the ways between one server and the others, in both directions. Its clients still reach it.
func (r *run) routesOfOne() []*link {
	at := r.rand.IntN(servers)
	if s := r.leader(); s != nil && r.rand.IntN(2) == 0 {
		at = slices.Index(r.f.nats.all, s)
	}
	var out []*link
	for i, s := range r.f.nats.all {
		for j, l := range s.routes {
			if i == at || j == at {
				out = append(out, l)
			}
		}
	}
	return out
}

// links breaks ways for a while.
func (r *run) links(ways []*link, how func(*link), lasts time.Duration) {
	for _, l := range ways {
		how(l)
	}
	r.wait(lasts)
	for _, l := range ways {
		l.mend()
	}
}

// leader is the server that leads one of the streams; nil if no one says.
func (r *run) leader() *natsServer {
	all := streams()
	return r.f.nats.leader(all[r.rand.IntN(len(all))])
}
