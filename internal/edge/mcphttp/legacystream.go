// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// headerLastEvent names the last event that a client has had (WHATWG HTML,
// server-sent events).
const headerLastEvent = "Last-Event-Id"

// lasting finds the session of a GET or DELETE and uses it; false where the
// request has been refused.
func (h *Handler) lasting(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) (*session.Session, bool) {
	if err := h.rpc.AdmitLegacy(in); err != nil {
		httpbody.Write(w, h.rpc.Refuse(in, err))
		return nil, false
	}
	s, ok := h.find(w, r, in)
	if !ok {
		return nil, false
	}
	if s == nil {
		httpbody.Write(w, h.rpc.UnknownSession(in, false))
		return nil, false
	}
	in.Session = s
	in.Describe()
	return s, true
}

// get streams what belongs to no request, or what a client missed of a stream
// whose connection broke. It needs no notifications/initialized: who opens the
// stream is ready for what comes on it.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) {
	release := h.mayStream(w, r, in)
	if release == nil {
		return
	}
	defer release()
	from := h.opened(w, r, in)
	if from == nil {
		return
	}
	defer from.session.Release()
	h.pump(w, r, from)
}

// reading is a connection that reads a stream.
type reading struct {
	session *session.Session
	reader  *session.Reader
	// gap: the client named an event that is not here. follow follows watches for it; nil on a stream of a call.
	gap    bool
	follow func()
	// isSilent: there is nothing to read yet, and has not been for a while.
	isSilent bool
}

// mayStream takes a place for the stream of a GET, and returns what gives it back; nil where the request has been refused. It is
// separate for the same reason as opened.
func (h *Handler) mayStream(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) (release func()) {
	release, err := h.rpc.OpenChanges(r.Context(), in)
	if err != nil {
		httpbody.Write(w, h.rpc.Refuse(in, err))
		return nil
	}
	return release
}

// opened is where a GET reads, in a session that is in use; nil where the
// request has been refused. It is apart because the stream may last for days,
// and should not hold what only its start needs.
func (h *Handler) opened(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) *reading {
	if isAccepted, _ := accepts(r.Header, "text/event-stream"); !isAccepted {
		httpbody.Write(w, h.rpc.Refuse(in, errmap.New(errmap.NotAcceptable, errmap.WithViolations(errmap.Violation{
			Keyword: "accept", Message: "GET opens a stream; Accept must allow text/event-stream",
		}))))
		return nil
	}
	s, ok := h.lasting(w, r, in)
	if !ok {
		return nil
	}
	from, err := h.reader(r, s)
	switch {
	case err != nil && !errors.Is(err, session.ErrLost):
		s.Release()
		httpbody.Write(w, h.rpc.SessionRefused(in, err))
		return nil
	case err != nil:
		s.Release()
		httpbody.Write(w, h.rpc.Refuse(in, errmap.Wrap(errmap.InvalidEnvelope, err, errmap.WithViolations(errmap.Violation{
			Keyword: "last-event-id", Message: "the event is unknown, or later events are no longer kept; retry without Last-Event-ID",
		}))))
		return nil
	}
	from.follow = h.rpc.Refollower(r.Context(), in, s)
	in.StreamOpened(from.reader.BegunBy())
	return from
}

// reader is where a GET reads: behind the event that it names, or at the first
// unread message that belongs to no request.
func (h *Handler) reader(r *http.Request, s *session.Session) (*reading, error) {
	from := &reading{session: s}
	var err error
	if seen := r.Header.Get(headerLastEvent); seen != "" {
		from.reader, err = s.Resume(seen)
		if err == nil && !from.reader.IsFor(h.rpc.ResultsKey(r.Context())) {
			from.reader.Close()
			return nil, session.ErrLost // what is kept was made for another view
		}
		if from.gap = errors.Is(err, session.ErrElsewhere); !from.gap {
			return from, err
		}
	}
	if err := s.Hear(); err != nil {
		return nil, err
	}
	if from.gap {
		s.Miss()
	}
	if resumes(s) {
		from.reader = s.Main().Greet()
	} else {
		from.reader = s.Main().Read()
	}
	return from, nil
}

// delete ends a session at its client's wish, and what runs in it.
func (h *Handler) delete(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) {
	s, ok := h.lasting(w, r, in)
	if !ok {
		return
	}
	defer s.Release()
	// Another DELETE may have been first.
	if err := h.rpc.Sessions().End(r.Context(), s); err != nil && !errors.Is(err, session.ErrUnknown) {
		httpbody.Write(w, h.rpc.SessionRefused(in, err))
		return
	}
	h.rpc.Flights().CloseOrigin(s.Origin())
	w.WriteHeader(http.StatusNoContent)
}

// pump writes the events of a stream to one connection until either ends. What
// was not written stays on the stream. Changes go to the stream of what belongs
// to no request, one by one and only while somebody reads it: until then they
// stay with the session, where each is reported once.
func (h *Handler) pump(w http.ResponseWriter, r *http.Request, from *reading) {
	revoked := make(chan struct{})
	stop := identity.FromContext(r.Context()).WhenRevoked(func() { close(revoked) })
	defer stop()
	p := &pumping{
		reading: *from, handler: h, out: newEventWriter(w, &h.opts, time.NewTimer(h.opts.KeepAlive)),
		gone: r.Context().Done(), revoked: revoked,
	}
	p.out.resumes = resumes(from.session)
	defer p.close()
	if p.greet() == nil {
		p.run()
	}
}

// pumping is the way from one stream to one connection. It is no set of local
// variables, because those would be kept on the stack of a goroutine that waits for
// days, beside the room for what they hold while something is written.
type pumping struct {
	reading
	handler *Handler
	out     *eventWriter
	// hears: the connection tells of changes, and changed is when to look for one.
	hears   bool
	changed <-chan struct{}
	// again is when to look for watches to follow; nil if there never are.
	again <-chan struct{}
	// gone is the end of the connection, revoked that of the caller's permission.
	gone, revoked <-chan struct{}
}

func (p *pumping) greet() error {
	err := p.out.write(nil) // so that a client knows at once that there is a stream
	if p.gap && err == nil {
		err = p.out.comment("gap: the event of Last-Event-ID is at another replica; what came after it is lost, and everything may have changed")
	}
	if p.isSilent && err == nil {
		err = p.out.comment("")
	}
	p.hears = p.reader.IsMain()
	if p.hears && p.follow != nil {
		p.again = p.session.FollowAgain()
	}
	return err
}

func (p *pumping) close() {
	p.out.close()
	p.reader.Close()
}

// run waits and writes.
func (p *pumping) run() {
	for p.pass() {
		select {
		case <-p.reader.News():
		case <-p.changed:
			// Who takes the token looks, even if another connection reads by now. An
			// error comes again.
			_, _ = p.handler.tell(p.session)
		case <-p.again:
			p.follow()
		case <-p.out.alive.C:
			if p.out.comment("") != nil {
				return
			}
		case <-p.gone:
			return
		case <-p.revoked:
			return // what was not written waits for the client to reconnect
		}
	}
}

// pass writes what there is; false where the stream or the connection has ended.
func (p *pumping) pass() bool {
	for {
		if p.out.drain(p.reader) != nil {
			return false
		}
		if !p.hears {
			return true
		}
		told, err := p.handler.tell(p.session)
		if err != nil {
			return false
		}
		if !told {
			p.changed = p.session.Changed()
			return true
		}
	}
}

// tell puts the next change on the stream of what belongs to no request. It
// reports whether there was one.
func (h *Handler) tell(s *session.Session) (bool, error) {
	change, ok, err := s.PollChange()
	if !ok {
		return false, err
	}
	message := h.rpc.ChangeNotification(s, change)
	if message == nil {
		return true, nil
	}
	return true, s.Main().Send(message)
}
