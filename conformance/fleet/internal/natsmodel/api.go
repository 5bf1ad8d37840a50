// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const apiPrefix = "$JS.API."

// The refusals of more than one request.
var (
	errStreamNotFound   = &refusal{404, 10059, "stream not found"}
	errConsumerNotFound = &refusal{404, 10014, "consumer not found"}
	errNotAvailable     = &refusal{503, 10008, "JetStream system temporarily unavailable"}
	errBadRequest       = &refusal{400, 10003, "bad request"}
	errNoMessage        = &refusal{404, 10037, "no message found"}
	errMismatch         = &refusal{400, 10056, "stream name in subject does not match request"}
)

func invalidConfig(format string, args ...any) *refusal {
	return &refusal{500, 10052, fmt.Sprintf(format, args...)}
}

func notModelled(what string) *refusal {
	return &refusal{501, 10000, "natsmodel: " + what + " is not modelled"}
}

// refuse answers a request with an error.
func (s *server) refuse(reply string, r *refusal) {
	if reply != "" {
		s.send(reply, nil, encode(struct {
			Type  string              `json:"type"`
			Error *jetstream.APIError `json:"error"`
		}{"io.nats.jetstream.api.v1.response", r.error()}))
	}
}

// succeed answers a request that asks for nothing.
func (s *server) succeed(reply string) {
	if reply != "" {
		s.send(reply, nil, []byte(`{"type":"io.nats.jetstream.api.v1.response","success":true}`))
	}
}

// modelled are the requests that are answered.
func modelled() []string {
	return []string{
		"INFO", "STREAM.CREATE.*", "STREAM.UPDATE.*", "STREAM.INFO.*", "STREAM.DELETE.*", "STREAM.PURGE.*", "STREAM.NAMES", "STREAM.MSG.GET.*",
		"STREAM.MSG.DELETE.*", "STREAM.LEADER.STEPDOWN.*", "META.LEADER.STEPDOWN", "CONSUMER.CREATE.*.*", "CONSUMER.CREATE.*.*.>",
		"CONSUMER.INFO.*.*", "CONSUMER.DELETE.*.*", "CONSUMER.NAMES.*", "CONSUMER.MSG.NEXT.*.*",
	}
}

func isModelled(subject string) bool {
	return slices.ContainsFunc(modelled(), func(f string) bool { return matches(apiPrefix+f, subject) })
}

// refuseAPI answers a request that is not modelled.
func (s *server) refuseAPI(m message) {
	what := notModelled(strings.TrimPrefix(m.to, apiPrefix))
	if strings.HasPrefix(m.to, apiPrefix+"DIRECT.") && m.reply != "" {
		s.send(m.reply, statusOf("501 "+what.text), nil)
		return
	}
	s.refuse(m.reply, what)
}

// api handles a request, which every server gets: the one that has to answers.
func (s *server) api(m message) {
	op := strings.TrimPrefix(m.to, apiPrefix)
	tokens := strings.Split(op, ".")
	if !isModelled(m.to) {
		return // the server of the client has said so
	}
	switch {
	case strings.HasPrefix(op, "CONSUMER.MSG.NEXT."):
		if o := s.consumers[consumerID{tokens[3], tokens[4]}]; o != nil {
			o.request(m)
		}
	case strings.HasPrefix(op, "STREAM.INFO."):
		s.streamInfo(m, tokens[2])
	case strings.HasPrefix(op, "STREAM.MSG."):
		s.message(m, tokens[2], tokens[3])
	case strings.HasPrefix(op, "STREAM.PURGE."):
		if g := s.led(m, tokens[2]); g != nil {
			g.purgeRequest(m)
		}
	case strings.HasPrefix(op, "STREAM.LEADER.STEPDOWN."):
		if g := s.led(m, tokens[3]); g != nil {
			s.succeed(m.reply)
			g.handOver()
		}
	case strings.HasPrefix(op, "CONSUMER.INFO."):
		if o := s.consumers[consumerID{tokens[2], tokens[3]}]; o != nil {
			s.send(m.reply, nil, encode(o.info()))
		} else if a := s.meta.metaState().streams[tokens[2]]; s.meta.leads && (a == nil || a.consumers[tokens[3]].created.IsZero()) {
			s.refuse(m.reply, errConsumerNotFound)
		}
	case s.meta.leaderless():
		s.refuse(m.reply, errNotAvailable)
	case s.meta.leads:
		s.metaRequest(m, op, tokens)
	}
}

// led returns the group of a stream if this server leads it, and answers in the cases in which another than the leader does.
func (s *server) led(m message, name string) *group {
	if s.meta.leaderless() {
		s.refuse(m.reply, errNotAvailable)
		return nil
	}
	g := s.streams[name]
	switch {
	case s.meta.metaState().streams[name] == nil:
		if s.meta.leads {
			s.refuse(m.reply, errStreamNotFound)
		}
	case g == nil:
	case g.leaderless():
		s.refuse(m.reply, errNotAvailable)
	case g.leads:
		return g
	}
	return nil
}

// metaRequest handles a request at the leader of the list of streams.
func (s *server) metaRequest(m message, op string, tokens []string) {
	streams := s.meta.metaState().streams
	switch {
	case op == "INFO":
		s.accountInfo(m)
	case op == "META.LEADER.STEPDOWN":
		s.succeed(m.reply)
		s.meta.handOver()
	case op == "STREAM.NAMES":
		s.names(m, sortedKeys(streams), "streams", func(name string) []string { return streams[name].cfg.Subjects })
	case strings.HasPrefix(op, "CONSUMER.NAMES."):
		if a := streams[tokens[2]]; a != nil {
			s.names(m, sortedKeys(a.consumers), "consumers", nil)
		} else {
			s.refuse(m.reply, errStreamNotFound)
		}
	case strings.HasPrefix(op, "STREAM.CREATE."):
		s.createStream(m, tokens[2])
	case strings.HasPrefix(op, "STREAM.UPDATE."):
		s.updateStream(m, tokens[2])
	case strings.HasPrefix(op, "STREAM.DELETE."):
		if streams[tokens[2]] == nil {
			s.refuse(m.reply, errStreamNotFound)
		} else {
			s.meta.propose(removeStream{tokens[2], m.reply})
		}
	case strings.HasPrefix(op, "CONSUMER.CREATE."):
		s.createConsumer(m, tokens)
	case strings.HasPrefix(op, "CONSUMER.DELETE."):
		a := streams[tokens[2]]
		switch {
		case a == nil:
			s.refuse(m.reply, errStreamNotFound)
		case a.consumers[tokens[3]].created.IsZero():
			s.refuse(m.reply, errConsumerNotFound)
		default:
			s.meta.propose(removeConsumer{tokens[2], tokens[3], m.reply})
		}
	}
}

func (s *server) accountInfo(m message) {
	out := jetstream.AccountInfo{}
	out.Limits = jetstream.AccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1}
	streams := s.meta.metaState().streams
	out.Streams = len(streams)
	for name, a := range streams {
		out.Consumers += len(a.consumers)
		if g := s.streams[name]; g == nil {
		} else if a.cfg.Storage == jetstream.FileStorage {
			out.Store += g.stream().store.bytes
		} else {
			out.Memory += g.stream().store.bytes
		}
	}
	s.send(m.reply, nil, encode(out))
}

// names answers a request for names, in pages.
func (s *server) names(m message, all []string, kind string, subjects func(string) []string) {
	const page = 1024
	var r struct {
		Offset  int    `json:"offset"`
		Subject string `json:"subject"`
	}
	if len(m.data) > 0 && json.Unmarshal(m.data, &r) != nil {
		s.refuse(m.reply, errBadRequest)
		return
	}
	if r.Subject != "" && subjects != nil {
		all = slices.DeleteFunc(all, func(name string) bool {
			return !slices.ContainsFunc(subjects(name), func(f string) bool { return overlaps(f, r.Subject) })
		})
	}
	from := min(max(r.Offset, 0), len(all))
	out := map[string]any{"total": len(all), "offset": from, "limit": page, kind: append([]string{}, all[from:min(len(all), from+page)]...)}
	s.send(m.reply, nil, encode(out))
}

// streamInfo answers as the leader of a stream, or as one of those that lack one.
func (s *server) streamInfo(m message, name string) {
	if s.meta.metaState().streams[name] == nil {
		if s.meta.leads {
			s.refuse(m.reply, errStreamNotFound)
		} else if s.meta.leaderless() {
			s.refuse(m.reply, errNotAvailable)
		}
		return
	}
	g := s.streams[name]
	if g == nil {
		return
	}
	if !g.leads && !g.leaderless() {
		if s.meta.leaderless() {
			s.refuse(m.reply, errNotAvailable)
		}
		return
	}
	var r struct {
		Filter string `json:"subjects_filter"`
	}
	if len(m.data) > 0 && m.data[0] == '{' && json.Unmarshal(m.data, &r) != nil {
		s.refuse(m.reply, &refusal{400, 10025, "invalid JSON"})
		return
	}
	var totals map[string]uint64
	if r.Filter != "" {
		totals = g.stream().store.totals(r.Filter)
	}
	s.send(m.reply, nil, encode(g.info(totals)))
}

// streamInfo answers requests about a stream.
type streamInfo struct {
	Type  string `json:"type"`
	Total int    `json:"total"`
	Limit int    `json:"limit"`
	*jetstream.StreamInfo
}

func (g *group) info(totals map[string]uint64) streamInfo {
	st := g.stream()
	out := &jetstream.StreamInfo{Config: st.cfg, Created: st.created, TimeStamp: g.s.wall(), Cluster: &jetstream.ClusterInfo{Leader: g.s.name}}
	out.State = jetstream.StreamState{
		Msgs: uint64(len(st.store.messages)), Bytes: st.store.bytes, FirstSeq: st.store.first, FirstTime: st.store.firstAt,
		LastSeq: st.store.last, LastTime: st.store.lastAt, NumSubjects: uint64(len(st.store.subjects)), Subjects: totals,
	}
	if st.store.last == 0 {
		out.State.FirstSeq = 0
	}
	out.State.NumDeleted = int(st.store.last+1-st.store.first) - len(st.store.messages)
	if a := g.s.meta.metaState().streams[g.name]; a != nil {
		out.State.Consumers = len(a.consumers)
	}
	if g.s.c.clustered() {
		g.clusterInfo(out.Cluster)
	}
	return streamInfo{"io.nats.jetstream.api.v1.stream_info_response", len(totals), 100_000, out}
}

// clusterInfo is what the server knows of the copies.
func (g *group) clusterInfo(out *jetstream.ClusterInfo) {
	s := g.s
	out.Name, out.Leader = clusterName, ""
	if g.leader != none {
		out.Leader = s.c.servers[g.leader].name
	}
	for _, to := range g.peers {
		if to == s.i && g.leader != none {
			continue
		}
		p := &jetstream.PeerInfo{Name: s.c.servers[to].name, Offline: to != s.i && (s.gone[to] || s.c.now.Sub(s.heard[to]) > offlineAfter)}
		if g.role == leading {
			if !g.heard[to].IsZero() { // zero is a server that was never heard
				p.Active = max(s.c.now.Sub(g.heard[to]), time.Nanosecond)
			}
			p.Current = g.match[to] >= g.applied && p.Active <= lostQuorum
			if g.commit > g.match[to] {
				p.Lag = g.commit - g.match[to]
			}
		}
		out.Replicas = append(out.Replicas, p)
	}
}

// message answers requests for a message, and those to delete one.
func (s *server) message(m message, op, name string) {
	g := s.led(m, name)
	if g == nil {
		return
	}
	var r struct {
		Seq     uint64 `json:"seq"`
		LastFor string `json:"last_by_subj"`
		NextFor string `json:"next_by_subj"`
	}
	switch err := json.Unmarshal(m.data, &r); {
	case len(m.data) == 0:
		s.refuse(m.reply, errBadRequest)
	case err != nil:
		s.refuse(m.reply, &refusal{400, 10025, "invalid JSON: " + err.Error()})
	case op == "DELETE":
		g.deleteRequest(m, r.Seq)
	case r.Seq > 0 && r.LastFor != "", r.Seq == 0 && r.LastFor == "" && r.NextFor == "", r.LastFor != "" && r.NextFor != "":
		s.refuse(m.reply, errBadRequest)
	default:
		g.getRequest(m, r.Seq, r.LastFor, r.NextFor)
	}
}

func (g *group) getRequest(m message, seq uint64, lastFor, nextFor string) {
	st := &g.stream().store
	var found *stored
	switch {
	case nextFor != "":
		found = st.next([]string{nextFor}, seq)
	case seq > 0:
		found = st.messages[seq]
	default:
		found = st.lastOf(lastFor)
	}
	if found == nil {
		g.s.refuse(m.reply, errNoMessage)
		return
	}
	type inStore struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs,omitempty"`
		Data    []byte    `json:"data,omitempty"`
		Time    time.Time `json:"time"`
	}
	g.s.send(m.reply, nil, encode(struct {
		Type    string  `json:"type"`
		Message inStore `json:"message"`
	}{"io.nats.jetstream.api.v1.stream_msg_get_response", inStore{found.subject, found.seq, found.header, found.data, found.at.UTC()}}))
}

func (g *group) deleteRequest(m message, seq uint64) {
	switch st := g.stream(); {
	case st.cfg.DenyDelete:
		g.s.refuse(m.reply, &refusal{500, 10057, "message delete not permitted"})
	case seq > st.store.last && st.cfg.Storage == jetstream.FileStorage:
		g.s.refuse(m.reply, &refusal{500, 10057, "stream store EOF"})
	case st.store.messages[seq] == nil:
		g.s.refuse(m.reply, &refusal{400, 10043, fmt.Sprintf("sequence %d not found", seq)})
	default:
		g.propose(removes{seq, m.reply})
	}
}

func (g *group) purgeRequest(m message) {
	var r struct {
		Filter string `json:"filter"`
		Seq    uint64 `json:"seq"`
		Keep   uint64 `json:"keep"`
	}
	switch {
	case g.stream().cfg.DenyPurge:
		g.s.refuse(m.reply, &refusal{500, 10110, "stream purge not permitted"})
	case len(m.data) > 0 && json.Unmarshal(m.data, &r) != nil, r.Seq > 0 && r.Keep > 0:
		g.s.refuse(m.reply, errBadRequest)
	default:
		g.propose(purges{r.Filter, m.reply, r.Seq, r.Keep})
	}
}
