// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// streams are those of the schedule: the raw ones, and those of internal/state.
func (p *player) streams() []string {
	return []string{"R", "L", "O", "KV_outrigger_default_things", "outrigger_default_log", "KV_outrigger_default_consents"}
}

// configs are the raw streams: one with values by key, a log that refuses what it has no room for, and one that drops the oldest.
func configs() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: "R", Subjects: []string{"r.>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, MaxBytes: 2500, MaxMsgSize: 400, MaxAge: time.Hour,
			AllowMsgTTL: true, AllowRollup: true, DenyDelete: true, SubjectDeleteMarkerTTL: time.Minute, Replicas: servers,
		},
		{
			Name: "L", Subjects: []string{"l.>"}, MaxMsgsPerSubject: 3, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxBytes: 4000,
			AllowMsgTTL: true, Replicas: servers,
		},
		{Name: "O", Subjects: []string{"o.>"}, MaxMsgs: 6, MaxMsgsPerSubject: -1, Storage: jetstream.MemoryStorage, Replicas: servers},
	}
}

// make makes the streams, and tries what is refused.
func (p *player) make() {
	ctx := p.t.Context()
	for _, config := range configs() {
		s, err := p.js.CreateStream(ctx, config)
		if err != nil {
			p.t.Fatal(err)
		}
		is := s.CachedInfo().Config
		is.Metadata = nil // the release of the server
		p.note("create "+config.Name, fmt.Sprintf("%+v", is), nil)
		_, err = p.js.CreateStream(ctx, config)
		p.note("create "+config.Name+" again", "", err)
		config.Description = "another"
		_, err = p.js.CreateStream(ctx, config)
		p.note("create another "+config.Name, "", err)
		_, err = p.js.UpdateStream(ctx, config)
		p.note("update "+config.Name, "", err)
	}
	for name, config := range map[string]jetstream.StreamConfig{
		"overlap":           {Name: "X", Subjects: []string{"r.*"}},
		"too many replicas": {Name: "X", Subjects: []string{"x"}, Replicas: 5},
		"duplicates":        {Name: "X", Subjects: []string{"x"}, Duplicates: time.Hour, MaxAge: time.Minute},
		"discard":           {Name: "X", Subjects: []string{"x"}, DiscardNewPerSubject: true},
		"marker":            {Name: "X", Subjects: []string{"x"}, SubjectDeleteMarkerTTL: time.Millisecond},
	} {
		_, err := p.js.CreateStream(ctx, config)
		p.note("create "+name, "", err)
	}
	slices.Sort(p.trace[len(p.trace)-5:]) // they come in any order
	_, err := p.js.Stream(ctx, "X")
	p.note("no stream", "", err)
	_, err = p.js.CreateStream(ctx, jetstream.StreamConfig{Name: "X", Subjects: []string{"x"}})
	p.note("create X", "", err)
	p.note("delete X", "", p.js.DeleteStream(ctx, "X"))
	p.note("delete X again", "", p.js.DeleteStream(ctx, "X"))
	_, err = p.js.Publish(ctx, "x", nil)
	p.note("publish to X", "", err)
	p.settled()
}

// note adds a result to the trace.
func (p *player) note(what, result string, err error) {
	p.trace = append(p.trace, fmt.Sprintf("%s: %s%s", what, result, failure(err)))
}

// failure is the kind of an error, without its text.
func failure(err error) string {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return fmt.Sprintf("error %d", api.ErrorCode)
	}
	for _, kind := range []error{
		state.ErrNotFound, state.ErrExists, state.ErrConflict, state.ErrFull, state.ErrTooLarge, state.ErrUnavailable, state.ErrNoAnswer, state.ErrUnreadable,
		jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound, jetstream.ErrMsgNotFound, jetstream.ErrStreamNameAlreadyInUse, nats.ErrNoResponders,
		context.DeadlineExceeded, nats.ErrTimeout,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return err.Error()
}

// operations does some operations, one after the other.
func (p *player) operations(n int) {
	p.t.Helper()
	all := []func(){
		p.put, p.put, p.put, p.put, p.put, p.expect, p.expect, p.withID, p.withID, p.withTTL, p.mark, p.refused, p.get, p.get, p.next, p.look, p.look,
		p.read, p.clear, p.remove, p.create, p.create, p.create, p.update, p.update, p.delete, p.restore, p.fetch, p.fetch, p.appendTo, p.appendTo, p.bounds, p.spend,
	}
	for range n {
		all[p.rng.IntN(len(all))]()
	}
	p.lookAll()
	p.watch()
	p.ask()
}

// subject draws one of a raw stream.
func (p *player) subject() (stream, subject string) {
	stream = []string{"R", "L", "O"}[p.rng.IntN(3)]
	return stream, fmt.Sprintf("%s.%c", strings.ToLower(stream), 'a'+rune(p.rng.IntN(5)))
}

func (p *player) payload() []byte { return []byte(strings.Repeat("x", p.rng.IntN(200))) }

// publish publishes to a raw stream.
func (p *player) publish(what string, m *nats.Msg, o ...jetstream.PublishOpt) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, m, o...)
	result := ""
	if err == nil {
		result = fmt.Sprintf("%s %d %t", ack.Stream, ack.Sequence, ack.Duplicate)
		if !ack.Duplicate {
			p.last[m.Subject] = ack.Sequence
		}
	}
	p.note(what+" "+m.Subject, result, err)
}

func (p *player) put() {
	_, subject := p.subject()
	p.publish("put", &nats.Msg{Subject: subject, Data: p.payload()})
}

func (p *player) expect() {
	_, subject := p.subject()
	want := p.last[subject]
	switch p.rng.IntN(4) {
	case 0:
		want = 0
	case 1:
		want++
	}
	p.publish("put if", &nats.Msg{Subject: subject, Data: p.payload()}, jetstream.WithExpectLastSequencePerSubject(want))
}

func (p *player) withID() {
	_, subject := p.subject()
	p.publish("put with an id", &nats.Msg{Subject: subject, Data: p.payload()}, jetstream.WithMsgID(fmt.Sprint("id", p.rng.IntN(6))))
}

func (p *player) withTTL() {
	_, subject := p.subject()
	ttl := []string{"10ms", "1h", "90", "never", "nonsense", "-1"}[p.rng.IntN(6)]
	p.publish("put for "+ttl, &nats.Msg{Subject: subject, Data: p.payload(), Header: nats.Header{"Nats-TTL": {ttl}}})
}

// mark writes the end of a value, as internal/state does.
func (p *player) mark() {
	_, subject := p.subject()
	p.publish("mark", &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Rollup": {"sub"}, "KV-Operation": {"PURGE"}}})
}

// refused is what is refused in any state.
func (p *player) refused() {
	_, subject := p.subject()
	switch p.rng.IntN(4) {
	case 0:
		p.publish("put too much", &nats.Msg{Subject: "r.a", Data: make([]byte, 500)})
	case 1:
		p.publish("put elsewhere", &nats.Msg{Subject: subject}, jetstream.WithExpectStream("ELSEWHERE"))
	case 2:
		p.publish("roll up", &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Rollup": {"some"}}})
	case 3:
		p.publish("put behind", &nats.Msg{Subject: subject}, jetstream.WithExpectLastSequence(9999))
	}
}

func (p *player) raw(name string) jetstream.Stream {
	s, err := p.js.Stream(p.t.Context(), name)
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return s
}

func show(m *jetstream.RawStreamMsg) string {
	if m == nil {
		return ""
	}
	keys := make([]string, 0, len(m.Header))
	for key, values := range m.Header {
		keys = append(keys, key+"="+strings.Join(values, ","))
	}
	slices.Sort(keys)
	return fmt.Sprintf("%s %d %d %v", m.Subject, m.Sequence, len(m.Data), keys)
}

func (p *player) get() {
	stream, subject := p.subject()
	m, err := p.raw(stream).GetLastMsgForSubject(p.t.Context(), subject)
	p.note("get "+subject, show(m), err)
}

func (p *player) next() {
	stream, subject := p.subject()
	seq := uint64(p.rng.IntN(20))
	m, err := p.raw(stream).GetMsg(p.t.Context(), seq, jetstream.WithGetMsgSubject(subject))
	p.note(fmt.Sprintf("next %s %d", subject, seq), show(m), err)
	if seq > 0 {
		m, err = p.raw(stream).GetMsg(p.t.Context(), seq)
		p.note(fmt.Sprintf("get %s %d", stream, seq), show(m), err)
	}
}

func (p *player) look() {
	stream, subject := p.subject()
	is, err := p.raw(stream).Info(p.t.Context(), jetstream.WithSubjectFilter(subject))
	result := ""
	if err == nil {
		at := is.State
		result = fmt.Sprintf("%d messages, %d bytes, %d to %d, %d deleted, %d subjects, %v", at.Msgs, at.Bytes, at.FirstSeq, at.LastSeq, at.NumDeleted, at.NumSubjects, at.Subjects)
	}
	p.note("look at "+subject, result, err)
}

// lookAll compares the whole of the raw streams.
func (p *player) lookAll() {
	for _, config := range configs() {
		is, err := p.raw(config.Name).Info(p.t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			p.note("look at "+config.Name, "", err)
			continue
		}
		p.note("look at "+config.Name, fmt.Sprintf("%d messages, %d bytes, %v, %d copies", is.State.Msgs, is.State.Bytes, is.State.Subjects, 1+len(is.Cluster.Replicas)), nil)
	}
	_, err := p.js.AccountInfo(p.t.Context())
	p.note("account", "", err)
}

// consumer makes a consumer, and asks again where there is no answer: it has one copy, whose server may be one that has just been
// killed. How soon the others notice depends on the time.
func (p *player) consumer(stream string, config jetstream.OrderedConsumerConfig) (o jetstream.Consumer, err error) {
	for range 4 {
		ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
		o, err = p.raw(stream).OrderedConsumer(ctx, config)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return o, err //nolint:wrapcheck // it is noted
}

// read reads a raw stream with a consumer.
func (p *player) read() {
	stream, subject := p.subject()
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}}
	switch p.rng.IntN(4) {
	case 0:
		config.FilterSubjects, config.DeliverPolicy = []string{strings.ToLower(stream) + ".>"}, jetstream.DeliverLastPerSubjectPolicy
	case 1:
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(1+p.rng.IntN(10))
	case 2:
		config.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	what := fmt.Sprintf("read %s by %v from %d", config.FilterSubjects, config.DeliverPolicy, config.OptStartSeq)
	o, err := p.consumer(stream, config)
	if err != nil {
		p.note(what, "", err)
		return
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	left := o.CachedInfo().NumPending
	messages, err := o.Messages(jetstream.PullMaxMessages(3), jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		p.note(what, "", err)
		return
	}
	result := []string{fmt.Sprint(left)}
	for left > 0 {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			result = append(result, failure(err))
			break
		}
		meta, _ := m.Metadata()
		result = append(result, fmt.Sprintf("%s %d %d", m.Subject(), meta.Sequence.Stream, len(m.Data())))
		left = meta.NumPending
	}
	info := o.CachedInfo()
	messages.Stop()
	p.note(what, strings.Join(result, ", "), nil)
	_, err = p.js.Consumer(ctx, stream, info.Name)
	p.note("the consumer", "", err)
	p.note("delete the consumer", "", p.js.DeleteConsumer(ctx, stream, info.Name))
	p.note("delete the consumer again", "", p.js.DeleteConsumer(ctx, stream, info.Name))
}

func (p *player) clear() {
	if p.rng.IntN(3) > 0 {
		return
	}
	stream, subject := p.subject()
	p.note("purge "+subject, "", p.raw(stream).Purge(p.t.Context(), jetstream.WithPurgeSubject(subject)))
	delete(p.last, subject)
}

func (p *player) remove() {
	stream, subject := p.subject()
	seq := p.last[subject]
	if seq == 0 {
		seq = 777
	}
	// nats.go says only that it failed.
	m, err := p.request(p.nc, "$JS.API.STREAM.MSG.DELETE."+stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
	var answer struct {
		Success bool                `json:"success"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	p.note(fmt.Sprintf("remove %s %d", stream, seq), fmt.Sprint(answer.Success, " "), err)
}

// either is one of the two clients of internal/state, and a key.
func (p *player) either() (s *stateClient, key string) {
	key = fmt.Sprint("k", p.rng.IntN(4))
	if p.rng.IntN(2) == 0 {
		return p.a, key
	}
	return p.b, key
}

// rank is the place of a revision among all that were given.
func (p *player) rank(revision uint64) string {
	if revision == 0 {
		return "none"
	}
	at, found := slices.BinarySearch(p.revised, revision)
	if !found {
		if at < len(p.revised) {
			return "older than the newest" // no new one may be
		}
		p.revised = append(p.revised, revision)
	}
	return fmt.Sprint("revision ", at)
}

func (p *player) create() {
	s, key := p.either()
	revision, err := s.things.Create(p.t.Context(), key, p.payload(), time.Hour)
	if err != nil {
		revision = 0
	}
	p.note("create "+key, p.rank(revision)+" ", err)
}

func (p *player) update() {
	s, key := p.either()
	e, err := s.things.Get(p.t.Context(), key)
	if p.rng.IntN(3) == 0 {
		e.Revision++
	}
	if err == nil || e.Revision > 0 {
		e.Revision, err = s.things.Update(p.t.Context(), key, p.payload(), e.Revision, time.Hour)
	}
	if err != nil {
		e.Revision = 0
	}
	p.note("update "+key, p.rank(e.Revision)+" ", err)
}

func (p *player) delete() {
	s, key := p.either()
	p.note("delete "+key, "", s.things.Delete(p.t.Context(), key, 0))
}

func (p *player) restore() {
	s, key := p.either()
	revision, err := s.things.Restore(p.t.Context(), key, p.payload(), time.Hour)
	if err != nil {
		revision = 0
	}
	p.note("restore "+key, p.rank(revision)+" ", err)
}

func (p *player) fetch() {
	s, key := p.either()
	e, err := s.things.Get(p.t.Context(), key)
	p.note("fetch "+key, fmt.Sprintf("%d bytes, %s ", len(e.Value), p.rank(e.Revision)), err)
}

func (p *player) appendTo() {
	s, key := p.either()
	sequence, err := s.log.Append(p.t.Context(), key, p.payload())
	p.note("append to "+key, fmt.Sprint(sequence, " "), err)
}

func (p *player) bounds() {
	s, _ := p.either()
	is, err := s.log.Bounds(p.t.Context())
	p.note("bounds", fmt.Sprintf("%d to %d, led %t ", is.First, is.Last, is.Led), err)
}

func (p *player) spend() {
	s, key := p.either()
	ok, err := s.once.Spend(p.t.Context(), key, time.Now().Add(time.Hour))
	p.note("spend "+key, fmt.Sprint(ok, " "), err)
}

// watch compares what a watcher sees of what there is, and of a change.
func (p *player) watch() {
	p.t.Helper()
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	entries, loaded := make(chan state.Entry, 64), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.a.things.Watch(ctx, state.Watcher{Changed: func(e state.Entry) { entries <- e }, Loaded: func() { close(loaded) }})
	}()
	defer func() { stop(); <-done }()
	var seen []string
	see := func(e state.Entry) {
		seen = append(seen, fmt.Sprintf("%s %d %t %v", e.Key, len(e.Value), e.Gone, e.Err))
	}
	testkit.Receive(p.t, "the watcher is loaded", loaded)
	for len(entries) > 0 {
		see(<-entries)
	}
	p.note("watch", fmt.Sprint(seen), nil)
	seen = nil
	_, err := p.b.things.Create(p.t.Context(), "watched", p.payload(), time.Hour)
	if err == nil {
		see(testkit.Receive(p.t, "a change", entries))
	}
	p.note("watch a creation", fmt.Sprint(seen, " "), err)
	seen = nil
	if err = p.b.things.Delete(p.t.Context(), "watched", 0); err == nil {
		see(testkit.Receive(p.t, "a change", entries))
	}
	p.note("watch a deletion", fmt.Sprint(seen, " "), err)
}

// ask compares messages between two clients.
func (p *player) ask() {
	p.t.Helper()
	s, err := p.nc.Subscribe("ask.me", func(m *nats.Msg) { _ = m.Respond(append([]byte("heard "), m.Data...)) })
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = s.Unsubscribe() }()
	all := p.available()
	far, err := nats.Connect(p.urls(all[p.rng.IntN(len(all))]), p.options()...)
	if err != nil {
		p.note("ask", "", err)
		return
	}
	defer far.Close()
	answer := ""
	testkit.Try(p.t, "an answer", func() error { // the interest has to arrive
		m, err := p.request(far, "ask.me", []byte("you"))
		if err == nil {
			answer = string(m.Data)
		}
		return err
	})
	p.note("ask", answer, nil)
	_, err = p.request(far, "ask.nothing", nil)
	p.note("ask nothing", "", err)
}

// request asks with a context: nats.go keeps the timers of other requests in a pool, which is not for bubbles.
func (p *player) request(nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Second)
	defer cancel()
	return nc.RequestWithContext(ctx, subject, data) //nolint:wrapcheck // it is compared
}
