// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// matches reports whether a filter covers a subject.
func matches(filter, subject string) bool {
	if filter == subject {
		return true
	}
	for {
		want, moreWant, isMore := strings.Cut(filter, ".")
		have, moreHave, hasMore := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != have, isMore != hasMore:
			return false
		case !isMore:
			return true
		}
		filter, subject = moreWant, moreHave
	}
}

// overlaps reports whether some subject is covered by both filters.
func overlaps(a, b string) bool {
	for {
		headA, moreA, hasA := strings.Cut(a, ".")
		headB, moreB, hasB := strings.Cut(b, ".")
		switch {
		case headA == ">" || headB == ">":
			return true
		case headA != headB && headA != "*" && headB != "*", hasA != hasB:
			return false
		case !hasA:
			return true
		}
		a, b = moreA, moreB
	}
}

// isFilter reports whether a text is a subject, with or without wildcards.
func isFilter(subject string) bool {
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		if token == "" || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

// isLiteral reports whether a subject has no wildcards.
func isLiteral(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "*" || token == ">" {
			return false
		}
	}
	return true
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// apiSubjects are those of JetStream that servers listen to.
func apiSubjects() []string {
	out := []string{"$JS.API.INFO", "$JS.API.STREAM.>", "$JS.API.DIRECT.>", "$JS.API.META.>", "$JS.API.SERVER.>", "$JS.API.ACCOUNT.>"}
	// Requests for the next message find their consumer, or nothing.
	for _, op := range []string{"CREATE", "DURABLE", "INFO", "DELETE", "NAMES", "LIST", "LEADER", "PAUSE", "RESET", "UNPIN"} {
		out = append(out, "$JS.API.CONSUMER."+op+".>")
	}
	return out
}

// want counts the interest of this server in a subject, and tells the others when it begins or ends.
func (s *server) want(subject string, n int) {
	was := s.interest[subject]
	now := was + n
	if now > 0 {
		s.interest[subject] = now
	} else {
		delete(s.interest, subject)
	}
	if (was > 0) != (now > 0) {
		for j := range s.c.servers {
			s.sendTo(j, wanted{subject, now > 0})
		}
	}
}

// wants reports whether some interest covers a subject.
func wants(interest map[string]int, subject string) bool {
	if interest[subject] > 0 {
		return true
	}
	for filter := range interest {
		if isLiteral := filter[len(filter)-1] != '>' && strings.IndexByte(filter, '*') < 0; !isLiteral && matches(filter, subject) {
			return true
		}
	}
	return false
}

// isWanted reports whether a message to a subject would reach anything, as far as this server knows.
func (s *server) isWanted(subject string) bool {
	if wants(s.interest, subject) {
		return true
	}
	for _, interest := range s.remote {
		if wants(interest, subject) {
			return true
		}
	}
	return false
}

// publish sends a message of a client, or of the server itself, to all that want it. It reports whether there is anything.
func (s *server) publish(from *conn, m message) bool {
	found := s.isWanted(m.to)
	if strings.HasPrefix(m.to, apiPrefix) && from != nil && found && !isModelled(m.to) {
		s.refuseAPI(m)
		return true
	}
	s.local(from, m)
	for j, interest := range s.remote {
		if wants(interest, m.to) {
			s.sendTo(j, carried{m})
		}
	}
	return found
}

// send publishes a message of the server itself.
func (s *server) send(to string, header, data []byte) {
	s.publish(nil, message{subject: to, to: to, header: header, data: data})
}

// local delivers a message on this server.
func (s *server) local(from *conn, m message) {
	for _, k := range s.conns() {
		if k != from || k.echo {
			k.deliver(m)
		}
	}
	if !s.hasJetStream() {
		return
	}
	if strings.HasPrefix(m.to, apiPrefix) {
		s.api(m)
		return
	}
	for _, name := range sortedKeys(s.streams) {
		if g := s.streams[name]; g.leads && slices.ContainsFunc(g.stream().cfg.Subjects, func(f string) bool { return matches(f, m.to) }) {
			g.inbound(m)
		}
	}
}

// routed is what one server sends to another.
type routed interface {
	what() string
	arrive(s *server, from int)
}

// sendTo sends to another server, if there is a way.
func (s *server) sendTo(to int, r routed) {
	if to != s.i && s.linked[to] {
		s.c.queues[s.i][to] = append(s.c.queues[s.i][to], r)
	}
}

// wanted says that a server wants messages of a subject, or no longer does.
type wanted struct {
	subject string
	is      bool
}

func (w wanted) what() string { return "interest" }

func (w wanted) arrive(s *server, from int) {
	if s.remote[from] == nil {
		return
	}
	if w.is {
		s.remote[from][w.subject] = 1
	} else {
		delete(s.remote[from], w.subject)
	}
}

// carried is a message for clients or for JetStream.
type carried struct{ m message }

func (c carried) what() string { return "message" }

func (c carried) arrive(s *server, _ int) { s.local(nil, c.m) }

// linkedUp begins a way between two servers: what the other one wants.
type linkedUp struct{ interest map[string]int }

func (linkedUp) what() string { return "link" }

func (l linkedUp) arrive(s *server, from int) {
	s.remote[from] = l.interest
	s.gone[from] = false
}

// linkedDown ends it. A server that was told to stop says goodbye.
type linkedDown struct{ goodbye bool }

func (linkedDown) what() string { return "unlink" }

func (l linkedDown) arrive(s *server, from int) {
	s.remote[from] = nil
	s.gone[from] = s.gone[from] || l.goodbye
}
