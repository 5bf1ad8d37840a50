// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxWaiting bounds the requests that wait at a consumer.
	maxWaiting = 512
	// forgotten is after how long a consumer ends that is not used, by default.
	forgotten = 5 * time.Second
)

type consumerID struct{ stream, name string }

// consumer is one without acknowledgements, in the memory of one server. It reads what that server has of the stream.
type consumer struct {
	s       *server
	id      consumerID
	cfg     jetstream.ConsumerConfig
	created time.Time
	filters []string
	// next is where it looks next, delivered how many messages it has sent.
	next, delivered uint64
	lastDelivered   uint64
	// skip are the last messages of their subjects at its start, which it delivers up to resume.
	skip    []uint64
	resume  uint64
	waiting []*pull
	used    time.Time
}

// pull is a request for messages.
type pull struct {
	reply           string
	left, maxBytes  int
	bounded, noWait bool
	got             int
	expires         time.Time // zero is never
	beat            time.Duration
	beatAt          time.Time
}

func (s *server) consumerIDs() []consumerID {
	if !s.hasJetStream() || len(s.consumers) == 0 {
		return nil
	}
	if s.consumersInOrder == nil {
		s.consumersInOrder = slices.SortedFunc(maps.Keys(s.consumers), func(a, b consumerID) int {
			return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.name, b.name))
		})
	}
	return s.consumersInOrder
}

func newConsumer(s *server, stream string, p placed) *consumer {
	o := &consumer{s: s, id: consumerID{stream, p.cfg.Name}, cfg: p.cfg, created: p.created, filters: p.cfg.FilterSubjects, used: s.c.now}
	if p.cfg.FilterSubject != "" {
		o.filters = []string{p.cfg.FilterSubject}
	}
	s.consumers[o.id], s.consumersInOrder = o, nil
	s.want(o.subject(), 1)
	if g := s.streams[stream]; g != nil {
		o.begin(&g.stream().store, g.stream().cfg.MaxMsgsPerSubject)
	}
	return o
}

// begin finds where it begins.
func (o *consumer) begin(st *store, perSubject int64) {
	switch o.cfg.DeliverPolicy {
	case jetstream.DeliverByStartSequencePolicy:
		o.next = max(o.cfg.OptStartSeq, st.first)
		return
	case jetstream.DeliverNewPolicy:
		o.next = st.last + 1
	case jetstream.DeliverLastPolicy:
		o.next = st.last + 1
		for subject, all := range st.subjects {
			if last := all[len(all)-1]; covers(o.filters, subject) && (o.next > st.last || last > o.next) {
				o.next = last
			}
		}
	case jetstream.DeliverLastPerSubjectPolicy:
		o.next = st.first
		if perSubject == 1 {
			break
		}
		o.resume = st.last
		for subject, all := range st.subjects {
			if covers(o.filters, subject) {
				o.skip = append(o.skip, all[len(all)-1])
			}
		}
		slices.Sort(o.skip)
	default:
		o.next = st.first
	}
}

// subject is where requests for messages go.
func (o *consumer) subject() string {
	return apiPrefix + "CONSUMER.MSG.NEXT." + o.id.stream + "." + o.id.name
}

// end ends it, and says so to those who wait.
func (o *consumer) end(status string) {
	for _, w := range o.waiting {
		o.s.send(w.reply, statusOf(status), nil)
	}
	o.waiting = nil
	if o.s.consumers[o.id] == o {
		o.s.want(o.subject(), -1)
		delete(o.s.consumers, o.id)
		o.s.consumersInOrder = nil
	}
}

// statusOf is a header that is a status.
func statusOf(status string) []byte { return []byte("NATS/1.0 " + status + "\r\n\r\n") }

// candidate is the message that comes next, or nil.
func (o *consumer) candidate() *stored {
	g := o.s.streams[o.id.stream]
	if g == nil {
		return nil
	}
	st := &g.stream().store
	for o.next <= o.resume && len(o.skip) > 0 {
		if m := st.messages[o.skip[0]]; m != nil {
			return m
		}
		o.skip = o.skip[1:]
	}
	if o.next <= o.resume {
		o.next = o.resume + 1
	}
	m := st.next(o.filters, o.next)
	if m == nil {
		o.next = max(o.next, st.last+1)
	}
	return m
}

// pending is how many messages are left.
func (o *consumer) pending() uint64 {
	g := o.s.streams[o.id.stream]
	if g == nil {
		return 0
	}
	st := &g.stream().store
	if o.next <= o.resume {
		n := st.count(o.filters, o.resume+1)
		for _, seq := range o.skip {
			if st.messages[seq] != nil {
				n++
			}
		}
		return n
	}
	return st.count(o.filters, o.next)
}

// request takes a request for messages.
func (o *consumer) request(m message) {
	if m.reply == "" {
		return
	}
	w, err := parsePull(m.data, o.s.c.now)
	if err != nil {
		o.s.send(m.reply, statusOf("400 Bad Request - "+err.Error()), nil)
		return
	}
	w.reply = m.reply
	o.used = o.s.c.now
	o.drop()
	switch {
	case w.noWait && w.expires.IsZero() && o.pending() == 0:
		o.s.send(m.reply, statusOf("404 No Messages"), nil)
		return
	case len(o.waiting) >= maxWaiting:
		if w.beat == 0 {
			o.s.send(m.reply, statusOf("409 Exceeded MaxWaiting"), nil)
		}
		return
	}
	o.waiting = append(o.waiting, w)
}

// parsePull parses a request: a number, or JSON.
func parsePull(data []byte, now time.Time) (*pull, error) {
	var r struct {
		Expires  time.Duration `json:"expires"`
		Batch    int           `json:"batch"`
		MaxBytes int           `json:"max_bytes"`
		NoWait   bool          `json:"no_wait"`
		Beat     time.Duration `json:"idle_heartbeat"`
	}
	switch {
	case len(data) == 0:
	case data[0] == '{':
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("invalid request: %w", err)
		}
	default:
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return nil, fmt.Errorf("invalid request: %w", err)
		}
		r.Batch = n
	}
	w := &pull{left: max(r.Batch, 1), maxBytes: r.MaxBytes, bounded: r.MaxBytes > 0, noWait: r.NoWait, beat: r.Beat}
	if r.Beat > 0 && r.Beat*2 > r.Expires {
		return nil, fmt.Errorf("heartbeat value too large")
	}
	if r.Expires > 0 {
		w.expires = now.Add(r.Expires)
	}
	if r.Beat > 0 {
		w.beatAt = now.Add(r.Beat)
	}
	return w, nil
}

// drop drops requests that are over, or whose client is gone.
func (o *consumer) drop() {
	now := o.s.c.now
	o.waiting = slices.DeleteFunc(o.waiting, func(w *pull) bool {
		if !w.expires.IsZero() && !now.Before(w.expires) {
			o.used = now
			o.s.send(w.reply, o.rest("408 Request Timeout", w), nil)
			return true
		}
		return !o.s.isWanted(w.reply)
	})
}

// rest is a status with what a request did not get.
func (*consumer) rest(status string, w *pull) []byte {
	return fmt.Appendf(nil, "NATS/1.0 %s\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n", status, w.left, w.maxBytes)
}

func (o *consumer) canDeliver() bool {
	if len(o.waiting) == 0 || o.candidate() == nil {
		return false
	}
	now := o.s.c.now
	return slices.ContainsFunc(o.waiting, func(w *pull) bool {
		return (w.expires.IsZero() || now.Before(w.expires)) && o.s.isWanted(w.reply)
	})
}

// deliver sends the next message to the request whose turn it is.
func (o *consumer) deliver() {
	o.drop()
	m := o.candidate()
	if m == nil || len(o.waiting) == 0 {
		return
	}
	w := o.waiting[0]
	size := len(m.subject) + len(m.header) + len(m.data)
	if w.bounded && size > w.maxBytes {
		o.s.send(w.reply, o.rest("409 Message Size Exceeds MaxBytes", w), nil)
		o.waiting = o.waiting[1:]
		return
	}
	if o.next <= o.resume {
		o.skip = o.skip[1:]
	} else {
		o.next = m.seq + 1
	}
	o.delivered, o.lastDelivered, o.used = o.delivered+1, m.seq, o.s.c.now
	w.left, w.got, w.maxBytes = w.left-1, w.got+1, max(0, w.maxBytes-size)
	o.waiting = o.waiting[1:]
	if w.left > 0 {
		if w.beat > 0 {
			w.beatAt = o.s.c.now.Add(w.beat)
		}
		o.waiting = append(o.waiting, w)
	}
	out := message{
		subject: m.subject, to: w.reply, header: m.header, data: m.data,
		reply: fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.%d", o.id.stream, o.id.name, m.seq, o.delivered, m.at.UnixNano(), o.pending()),
	}
	if o.cfg.HeadersOnly {
		out.header = append([]byte("NATS/1.0\r\nNats-Msg-Size: "+strconv.Itoa(len(m.data))+crlf), headerLines(m.header)...)
		out.data = nil
	}
	o.s.publish(nil, out)
	if o.candidate() == nil {
		o.waiting = slices.DeleteFunc(o.waiting, func(w *pull) bool {
			if w.noWait && w.got > 0 {
				o.s.send(w.reply, statusOf("404 No Messages"), nil)
				return true
			}
			return false
		})
	}
}

// headerLines is a header without its first line.
func headerLines(h []byte) []byte {
	if at := slices.Index(h, '\n'); at >= 0 {
		return h[at+1:]
	}
	return []byte(crlf)
}

// idle is when the consumer ends if nothing uses it.
func (o *consumer) idle() time.Time { return o.used.Add(cmp.Or(o.cfg.InactiveThreshold, forgotten)) }

func (o *consumer) timers(f func(time.Time)) {
	for _, w := range o.waiting {
		if !w.expires.IsZero() {
			f(w.expires)
		}
		if w.beat > 0 {
			f(w.beatAt)
		}
	}
	f(o.idle())
}

func (o *consumer) tick() {
	now := o.s.c.now
	o.drop()
	for _, w := range o.waiting {
		if w.beat > 0 && !now.Before(w.beatAt) {
			w.beatAt = now.Add(w.beat)
			o.s.send(w.reply, fmt.Appendf(nil, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n", o.delivered, o.lastDelivered), nil)
		}
	}
	if now.Before(o.idle()) {
		return
	}
	if len(o.waiting) > 0 {
		o.used = now
		return
	}
	o.used = now // it asks again later if nothing comes of it
	subject := apiPrefix + "CONSUMER.DELETE." + o.id.stream + "." + o.id.name
	o.s.publish(nil, message{subject: subject, to: subject})
}

// consumerInfo answers requests about a consumer.
type consumerInfo struct {
	Type string `json:"type"`
	*jetstream.ConsumerInfo
}

func (o *consumer) info() consumerInfo {
	out := &jetstream.ConsumerInfo{
		Stream: o.id.stream, Name: o.id.name, Created: o.created, Config: o.cfg, NumWaiting: len(o.waiting), NumPending: o.pending(), TimeStamp: o.s.wall(),
		Delivered: jetstream.SequenceInfo{Consumer: o.delivered, Stream: o.lastDelivered},
		AckFloor:  jetstream.SequenceInfo{Consumer: o.delivered, Stream: o.lastDelivered},
		Cluster:   &jetstream.ClusterInfo{Leader: o.s.name},
	}
	if o.s.c.clustered() {
		out.Cluster.Name = clusterName
	}
	return consumerInfo{"io.nats.jetstream.api.v1.consumer_create_response", out}
}
