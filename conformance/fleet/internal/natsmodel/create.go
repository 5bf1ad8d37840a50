// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// parseConfig parses and completes the configuration of a stream.
func (s *server) parseConfig(m message, name string) (jetstream.StreamConfig, *refusal) {
	var cfg jetstream.StreamConfig
	if err := json.Unmarshal(m.data, &cfg); err != nil {
		return cfg, &refusal{400, 10025, "invalid JSON: " + err.Error()}
	}
	if cfg.Name != name {
		return cfg, errMismatch
	}
	for _, n := range []*int64{&cfg.MaxMsgs, &cfg.MaxBytes, &cfg.MaxMsgsPerSubject} {
		if *n <= 0 {
			*n = -1
		}
	}
	if cfg.MaxMsgSize <= 0 {
		cfg.MaxMsgSize = -1
	}
	if cfg.MaxConsumers <= 0 {
		cfg.MaxConsumers = -1
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	if len(cfg.Subjects) == 0 {
		cfg.Subjects = []string{name}
	}
	if cfg.Duplicates == 0 {
		cfg.Duplicates = 2 * time.Minute
		if cfg.MaxAge > 0 {
			cfg.Duplicates = min(cfg.Duplicates, cfg.MaxAge)
		}
	}
	if cfg.SubjectDeleteMarkerTTL > 0 {
		cfg.AllowMsgTTL, cfg.AllowRollup, cfg.DenyPurge = true, true, false
	}
	return cfg, s.judgeConfig(&cfg)
}

// judgeConfig refuses what NATS refuses, and what is not modelled.
func (s *server) judgeConfig(cfg *jetstream.StreamConfig) *refusal {
	switch {
	case cfg.MaxAge != 0 && cfg.MaxAge < 100*time.Millisecond:
		return invalidConfig("max age needs to be >= 100ms")
	case cfg.MaxAge > 0 && cfg.Duplicates > cfg.MaxAge:
		return invalidConfig("duplicates window can not be larger then max age")
	case cfg.DiscardNewPerSubject && cfg.Discard != jetstream.DiscardNew:
		return invalidConfig("discard new per subject requires discard new policy to be set")
	case cfg.DiscardNewPerSubject && cfg.MaxMsgsPerSubject <= 0:
		return invalidConfig("discard new per subject requires max msgs per subject > 0")
	case cfg.SubjectDeleteMarkerTTL != 0 && cfg.SubjectDeleteMarkerTTL < time.Second:
		return invalidConfig("subject delete marker TTL must be at least 1 second")
	case cfg.Replicas > 1 && !s.c.clustered():
		return &refusal{500, 10074, "replicas > 1 not supported in non-clustered mode"}
	case cfg.Replicas > len(s.c.servers):
		return &refusal{400, 10005, "no suitable peers for placement"}
	case cfg.Retention != jetstream.LimitsPolicy, cfg.Mirror != nil, len(cfg.Sources) > 0, cfg.RePublish != nil, cfg.SubjectTransform != nil,
		cfg.AllowDirect, cfg.MirrorDirect, cfg.Sealed, cfg.NoAck, cfg.Template != "", cfg.FirstSeq > 1, cfg.AllowMsgCounter, cfg.AllowAtomicPublish,
		cfg.AllowMsgSchedules, cfg.Placement != nil:
		return notModelled("such a stream")
	}
	for _, subject := range cfg.Subjects {
		if !isFilter(subject) {
			return invalidConfig("invalid subject")
		}
		for name, a := range s.meta.metaState().streams {
			if name != cfg.Name && slices.ContainsFunc(a.cfg.Subjects, func(f string) bool { return overlaps(f, subject) }) {
				return &refusal{400, 10065, "subjects overlap with an existing stream"}
			}
		}
	}
	return nil
}

func (s *server) createStream(m message, name string) {
	cfg, refused := s.parseConfig(m, name)
	if refused != nil {
		s.refuse(m.reply, refused)
		return
	}
	if a := s.meta.metaState().streams[name]; a != nil {
		s.existing(m.reply, a, &cfg)
		return
	}
	peers := s.c.rng.Perm(len(s.c.servers))[:cfg.Replicas]
	a := assignment{cfg: cfg, created: s.wall().UTC(), peers: slices.Sorted(slices.Values(peers)), first: peers[0], reply: m.reply}
	for _, p := range peers { // one that is there
		if p == s.i || s.linked[p] && !s.gone[p] {
			a.first = p
			break
		}
	}
	s.meta.propose(addStream{a})
}

func (s *server) updateStream(m message, name string) {
	a := s.meta.metaState().streams[name]
	if a == nil {
		s.refuse(m.reply, errStreamNotFound)
		return
	}
	cfg, refused := s.parseConfig(m, name)
	switch {
	case refused != nil:
		s.refuse(m.reply, refused)
	case cfg.Replicas != a.cfg.Replicas, cfg.Storage != a.cfg.Storage, !slices.Equal(cfg.Subjects, a.cfg.Subjects):
		s.refuse(m.reply, notModelled("this change of a stream"))
	default:
		s.meta.propose(updateStream{cfg, m.reply})
	}
}

func (s *server) createConsumer(m message, tokens []string) {
	stream, name := tokens[2], tokens[3]
	var r struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action"`
	}
	a := s.meta.metaState().streams[stream]
	err := json.Unmarshal(m.data, &r)
	cfg := &r.Config
	if err == nil {
		cfg.Name = name
	}
	switch {
	case err != nil:
		s.refuse(m.reply, &refusal{400, 10025, "invalid JSON: " + err.Error()})
	case r.Stream != stream:
		s.refuse(m.reply, errMismatch)
	case len(tokens) > 4 && strings.Join(tokens[4:], ".") != cfg.FilterSubject:
		s.refuse(m.reply, &refusal{400, 10131, "Consumer create request did not match filtered subject from create subject"})
	case a == nil:
		s.refuse(m.reply, errStreamNotFound)
	case cfg.Durable != "", cfg.AckPolicy != jetstream.AckNonePolicy, cfg.DeliverSubject != "", cfg.Replicas > 1, cfg.OptStartTime != nil,
		len(cfg.PriorityGroups) > 0, cfg.RateLimit > 0, cfg.MaxRequestBatch > 0, cfg.MaxRequestMaxBytes > 0:
		s.refuse(m.reply, notModelled("such a consumer"))
	case !a.consumers[name].created.IsZero():
		if was := a.consumers[name].cfg; r.Action != "" || !bytes.Equal(encode(was), encode(cfg)) {
			s.refuse(m.reply, &refusal{400, 10148, "consumer already exists"})
			return
		}
		subject := apiPrefix + "CONSUMER.INFO." + stream + "." + name
		s.publish(nil, message{subject: subject, to: subject, reply: m.reply})
	default:
		var online []int
		for _, p := range a.peers {
			if p == s.i || s.linked[p] && !s.gone[p] {
				online = append(online, p)
			}
		}
		if len(online) == 0 {
			online = a.peers
		}
		at := online[s.c.rng.IntN(len(online))]
		s.meta.propose(addConsumer{stream, placed{cfg: *cfg, created: s.wall().UTC(), server: at, reply: m.reply}})
	}
}
