// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// stream is the machine of a stream.
type stream struct {
	cfg     jetstream.StreamConfig
	created time.Time
	store   store
	// known are the ids of messages within the window of duplicates.
	known map[string]known
	ids   []string // in their order
}

type known struct {
	seq uint64
	at  time.Time
}

func newStream(cfg jetstream.StreamConfig, created time.Time) *stream {
	return &stream{cfg: cfg, created: created, store: newStore(cfg.Storage == jetstream.FileStorage), known: map[string]known{}}
}

func (st *stream) clone() machine {
	out := *st
	out.store, out.known = st.store.clone(), maps.Clone(st.known)
	out.ids = append([]string(nil), st.ids...)
	return &out
}

func (g *group) stream() *stream {
	st, _ := g.machine.(*stream)
	return st
}

// proposals are what a leader has proposed and not applied yet.
type proposals struct {
	subjects map[string]inFlight
	ids      map[string]bool
	expiring map[uint64]time.Time
}

type inFlight struct{ messages, bytes uint64 }

// The entries of a stream.
type (
	stores struct {
		message
		id  string
		at  time.Time
		ttl time.Duration
	}
	purges struct {
		filter, reply string
		before, keep  uint64
	}
	removes struct {
		seq   uint64
		reply string
	}
)

// listen wants the messages of the stream, as its leader.
func (g *group) listen() {
	if g.name == "" {
		return
	}
	for _, subject := range g.stream().cfg.Subjects {
		g.s.want(subject, 1)
	}
	if a := g.s.meta.metaState().streams[g.name]; a != nil && a.reply != "" && g.led == 1 {
		g.s.send(a.reply, nil, encode(g.info(nil)))
	}
}

func (g *group) unlisten() {
	if g.name == "" {
		return
	}
	for _, subject := range g.stream().cfg.Subjects {
		g.s.want(subject, -1)
	}
}

// refusal is why a write is refused.
type refusal struct {
	code, number int
	text         string
}

func (r *refusal) error() *jetstream.APIError {
	return &jetstream.APIError{Code: r.code, ErrorCode: jetstream.ErrorCode(r.number), Description: r.text}
}

// acknowledgement answers a write.
type acknowledgement struct {
	Error     *jetstream.APIError `json:"error,omitempty"`
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate,omitempty"`
}

// acknowledge answers a write, unless that answer is to be lost.
func (g *group) acknowledge(reply string, a acknowledgement) {
	if reply == "" {
		return
	}
	if g.s.loseAcks > 0 {
		g.s.loseAcks--
		return
	}
	a.Stream = g.name
	g.s.send(reply, nil, encode(a))
}

// inbound takes a message for the stream, as its leader.
func (g *group) inbound(m message) {
	w := stores{message: m, at: g.s.wall()}
	duplicate, refused := g.check(&w)
	switch {
	case refused != nil:
		g.acknowledge(m.reply, acknowledgement{Error: refused.error()})
		return
	case duplicate > 0:
		g.acknowledge(m.reply, acknowledgement{Seq: duplicate, Duplicate: true})
		return
	}
	p := &g.proposals
	if p.subjects == nil {
		p.subjects, p.ids = map[string]inFlight{}, map[string]bool{}
	}
	was := p.subjects[m.to]
	p.subjects[m.to] = inFlight{was.messages + 1, was.bytes + g.stream().store.size(m.to, m.header, m.data)}
	if w.id != "" {
		p.ids[w.id] = true
	}
	g.propose(w)
}

// check judges a message as NATS does before it proposes it, in the same order.
func (g *group) check(w *stores) (duplicate uint64, refused *refusal) {
	st, cfg := g.stream(), &g.stream().cfg
	if cfg.MaxMsgSize >= 0 && len(w.header)+len(w.data) > int(cfg.MaxMsgSize) {
		return 0, &refusal{400, 10054, "message size exceeds maximum allowed"}
	}
	if len(w.header) > math.MaxUint16 {
		return 0, &refusal{400, 10097, "header size exceeds maximum allowed of 64k"}
	}
	if name, _ := header(w.header, "Nats-Expected-Stream"); name != "" && name != g.name {
		return 0, &refusal{400, 10060, "expected stream does not match"}
	}
	var err error
	w.ttl, err = lifetime(w.header)
	switch {
	case (w.ttl != 0 || err != nil) && !cfg.AllowMsgTTL:
		return 0, &refusal{400, 10166, "per-message TTL is disabled"}
	case err != nil:
		return 0, &refusal{400, 10165, err.Error()}
	}
	if w.id, _ = header(w.header, "Nats-Msg-Id"); w.id != "" {
		if g.proposals.ids[w.id] {
			return 0, &refusal{409, 10158, "duplicate message id is in process"}
		}
		if k, found := st.known[w.id]; found && w.at.Sub(k.at) < cfg.Duplicates {
			return k.seq, nil
		}
	}
	if refused = g.expectations(w); refused != nil {
		return 0, refused
	}
	rollup, isRollup := header(w.header, "Nats-Rollup")
	switch {
	case isRollup && (!cfg.AllowRollup || cfg.DenyPurge):
		return 0, &refusal{500, 10111, "rollup not permitted"}
	case isRollup && rollup != "sub" && rollup != "all":
		return 0, &refusal{500, 10111, fmt.Sprintf("rollup value invalid: %q", rollup)}
	}
	if err := g.room(w, isRollup); err != nil {
		return 0, &refusal{503, 10077, err.Error()}
	}
	return 0, nil
}

// expectations judges what a message expects of the last sequences.
func (g *group) expectations(w *stores) *refusal {
	st := g.stream()
	if text, found := header(w.header, "Nats-Expected-Last-Sequence"); found {
		inFlight := uint64(0)
		for _, f := range g.proposals.subjects {
			inFlight += f.messages
		}
		if want, err := strconv.ParseUint(text, 10, 64); err != nil || want != st.store.last+inFlight {
			return &refusal{400, 10071, fmt.Sprintf("wrong last sequence: %d", st.store.last+inFlight)}
		}
	}
	text, found := header(w.header, "Nats-Expected-Last-Subject-Sequence")
	other, hasOther := header(w.header, "Nats-Expected-Last-Subject-Sequence-Subject")
	if !found {
		if hasOther {
			return &refusal{400, 10193, "missing sequence for expected last sequence per subject"}
		}
		return nil
	}
	subject := w.to
	if other != "" {
		subject = other
	}
	if g.proposals.subjects[subject].messages > 0 {
		return &refusal{400, 10164, "wrong last sequence"}
	}
	have := uint64(0)
	if m := st.store.lastOf(subject); m != nil {
		have = m.seq
	}
	if want, err := strconv.ParseUint(text, 10, 64); err != nil || want != have {
		return &refusal{400, 10071, fmt.Sprintf("wrong last sequence: %d", have)}
	}
	return nil
}

// What NATS says of a stream that is full.
var (
	errMaxMessages   = errors.New("maximum messages exceeded")
	errMaxBytes      = errors.New("maximum bytes exceeded")
	errMaxPerSubject = errors.New("maximum messages per subject exceeded")
)

// room judges whether a stream that discards new messages has room for one.
func (g *group) room(w *stores, isRollup bool) error {
	st, cfg := g.stream(), &g.stream().cfg
	if cfg.Discard != jetstream.DiscardNew {
		return nil
	}
	mine := st.store.size(w.to, w.header, w.data)
	if cfg.MaxBytes > 0 || cfg.MaxMsgs > 0 {
		messages, bytes := uint64(len(st.store.messages))+1, st.store.bytes+mine
		for _, f := range g.proposals.subjects {
			messages, bytes = messages+f.messages, bytes+f.bytes
		}
		if !g.s.c.clustered() && cfg.MaxMsgsPerSubject > 0 {
			// One server knows already what will make way.
			if all := st.store.subjects[w.to]; int64(len(all)) >= cfg.MaxMsgsPerSubject {
				old := st.store.messages[all[0]]
				if size := st.store.size(old.subject, old.header, old.data); size >= mine {
					return nil
				}
				messages--
			}
		}
		if cfg.MaxMsgs > 0 && messages > uint64(cfg.MaxMsgs) {
			return errMaxMessages
		}
		if cfg.MaxBytes > 0 && bytes > uint64(cfg.MaxBytes) {
			return errMaxBytes
		}
	}
	if cfg.DiscardNewPerSubject && cfg.MaxMsgsPerSubject > 0 && !isRollup {
		if n := uint64(len(st.store.subjects[w.to])) + g.proposals.subjects[w.to].messages + 1; n > uint64(cfg.MaxMsgsPerSubject) {
			return errMaxPerSubject
		}
	}
	return nil
}

func (st *stream) apply(g *group, e entry) {
	switch op := e.op.(type) {
	case stores:
		st.write(g, op)
	case purges:
		st.purge(g, op)
	case removes:
		found := st.store.remove(op.seq)
		if g.role == leading && op.reply != "" {
			g.s.send(op.reply, nil, encode(struct {
				Success bool `json:"success"`
			}{found}))
		}
	}
}

// write stores a message, and acknowledges it at the leader.
func (st *stream) write(g *group, w stores) {
	if f, found := g.proposals.subjects[w.to]; found {
		if f.messages--; f.messages == 0 {
			delete(g.proposals.subjects, w.to)
		} else {
			f.bytes -= min(f.bytes, st.store.size(w.to, w.header, w.data))
			g.proposals.subjects[w.to] = f
		}
		delete(g.proposals.ids, w.id)
	}
	cfg := &st.cfg
	m := &stored{seq: st.store.last + 1, subject: w.to, header: w.header, data: w.data, at: w.at}
	if w.ttl > 0 {
		m.expires = w.at.Add(w.ttl)
	}
	if old := w.at.Add(cfg.MaxAge); cfg.MaxAge > 0 && w.ttl != never && (m.expires.IsZero() || old.Before(m.expires)) {
		m.expires = old
	}
	st.store.add(m)
	for all := st.store.subjects[w.to]; cfg.MaxMsgsPerSubject > 0 && int64(len(all)) > cfg.MaxMsgsPerSubject; all = st.store.subjects[w.to] {
		st.store.remove(all[0])
	}
	for cfg.MaxMsgs > 0 && int64(len(st.store.messages)) > cfg.MaxMsgs || cfg.MaxBytes > 0 && st.store.bytes > uint64(cfg.MaxBytes) {
		if !st.store.remove(st.store.first) {
			break
		}
	}
	switch rollup, _ := header(w.header, "Nats-Rollup"); rollup {
	case "sub":
		st.clear(w.to, m.seq, 0)
	case "all":
		st.clear("", m.seq, 0)
	}
	if w.id != "" {
		st.remember(w.id, m.seq, w.at)
	}
	if tell := g.s.c.opts.Stored; tell != nil {
		tell(g.s.i, Stored{Stream: g.name, Subject: m.subject, Sequence: m.seq, Header: m.header, Data: m.data, TTL: w.ttl})
	}
	if g.role == leading {
		g.acknowledge(w.reply, acknowledgement{Seq: m.seq})
	}
}

// remember remembers the id of a message, and forgets those that are too old.
func (st *stream) remember(id string, seq uint64, at time.Time) {
	for len(st.ids) > 0 && at.Sub(st.known[st.ids[0]].at) >= st.cfg.Duplicates {
		delete(st.known, st.ids[0])
		st.ids = st.ids[1:]
	}
	if _, found := st.known[id]; !found {
		st.ids = append(st.ids, id)
	}
	st.known[id] = known{seq, at}
}

// clear removes messages before a sequence, zero is all, but for some last ones of each call.
func (st *stream) clear(filter string, before, keep uint64) uint64 {
	var filters []string
	if filter != "" {
		filters = []string{filter}
	}
	n := uint64(0)
	left := st.store.count(filters, 0)
	for m := st.store.next(filters, 0); m != nil && (before == 0 || m.seq < before) && left > keep; m = st.store.next(filters, m.seq+1) {
		st.store.remove(m.seq)
		n, left = n+1, left-1
	}
	return n
}

func (st *stream) purge(g *group, p purges) {
	n := st.clear(p.filter, p.before, p.keep)
	if g.role == leading && p.reply != "" {
		g.s.send(p.reply, nil, encode(struct {
			Success bool   `json:"success"`
			Purged  uint64 `json:"purged"`
		}{true, n}))
	}
}

// proposeAgain is after how long the end of a message is proposed again.
const proposeAgain = 2 * time.Second

// hasMarkers reports whether the ends of messages are replicated.
func (g *group) hasMarkers() bool { return g.stream().cfg.SubjectDeleteMarkerTTL > 0 }

// dueNext is the message that this server expires next.
func (g *group) dueNext() (expiry, bool) {
	st := g.stream()
	if st == nil || g.hasMarkers() && !g.leads {
		return expiry{}, false
	}
	return st.store.nextExpiry(func(seq uint64) bool {
		at, found := g.proposals.expiring[seq]
		return !found || g.s.c.now.Sub(at) >= proposeAgain
	})
}

// nextExpiry is when that is, by the timers.
func (g *group) nextExpiry() time.Time {
	if e, found := g.dueNext(); found {
		return e.at.Add(-g.s.offset)
	}
	return time.Time{}
}

func (g *group) canExpire() bool {
	e, found := g.dueNext()
	return found && !g.s.wall().Before(e.at)
}

// expire ends a message whose lifetime is over.
func (g *group) expire() {
	e, _ := g.dueNext()
	st := g.stream()
	if !g.hasMarkers() {
		st.store.remove(e.seq)
		return
	}
	if g.proposals.expiring == nil {
		g.proposals.expiring = map[uint64]time.Time{}
	}
	for seq := range g.proposals.expiring {
		if st.store.messages[seq] == nil {
			delete(g.proposals.expiring, seq)
		}
	}
	g.proposals.expiring[e.seq] = g.s.c.now
	m := st.store.messages[e.seq]
	if isMarker(m.header) || len(st.store.subjects[m.subject]) > 1 {
		g.propose(removes{seq: e.seq})
		return
	}
	g.inbound(message{to: m.subject, header: fmt.Appendf(nil, "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %s\r\nNats-Rollup: sub\r\n\r\n",
		st.cfg.SubjectDeleteMarkerTTL.Truncate(time.Second))})
}

// isMarker reports whether a message is the end of others.
func isMarker(h []byte) bool {
	_, isMarker := header(h, "Nats-Marker-Reason")
	operation, _ := header(h, "KV-Operation")
	return isMarker || operation == "PURGE"
}
