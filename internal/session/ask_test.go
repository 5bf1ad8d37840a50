// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// wire takes what a session sends, each message on its own.
type wire chan *jsonrpc.Message

func (w wire) send(text []byte) error {
	m := jsonrpc.Parse(text, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if m.Fault != nil {
		return fmt.Errorf("%s: %s", m.Fault.Reason, text)
	}
	w <- &m
	return nil
}

// next is the message that was sent last.
func (w wire) next(t *testing.T) *jsonrpc.Message {
	t.Helper()
	select {
	case m := <-w:
		return m
	case <-time.After(time.Minute):
		t.Fatal("nothing was sent")
		return nil
	}
}

// response parses a response with an id as it came.
func response(t testing.TB, id, rest string) *jsonrpc.Message {
	t.Helper()
	m := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":`+id+`,`+rest+`}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if m.Fault != nil {
		t.Fatalf("%s: %s", rest, m.Fault.Reason)
	}
	return &m
}

// asked is the outcome of a question.
type asked struct {
	result string
	err    error
}

// ask asks in the background.
func ask(ctx context.Context, s *session.Session, w wire, method, params string) <-chan asked {
	out := make(chan asked, 1)
	go func() {
		result, err := s.Ask(ctx, w.send, method, []byte(params))
		out <- asked{string(result), err}
	}()
	return out
}

func TestAnAnswerReachesWhoAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, manage(t, session.Options{}))
		w := make(wire, 1)
		answer := ask(t.Context(), s, w, "elicitation/create", `{"message":"?"}`)
		q := w.next(t)
		if q.Kind != jsonrpc.KindRequest || q.Method != "elicitation/create" || string(q.Params) != `{"message":"?"}` {
			t.Fatalf("asked %+v", q)
		}
		id := string(q.ID.Raw())
		text := []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept"}}`)
		m := jsonrpc.Parse(text, jsonrpc.ProfileMCP, jsonrpc.Limits{})
		if err := s.Deliver(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		clear(text) // what was delivered is a copy
		if got := <-answer; got.err != nil || got.result != `{"action":"accept"}` {
			t.Errorf("got %+v", got)
		}
		if err := s.Deliver(t.Context(), response(t, id, `"result":{}`)); !errors.Is(err, session.ErrUnexpected) {
			t.Errorf("a second answer: %v", err)
		}

		answer = ask(t.Context(), s, w, "roots/list", "")
		if q = w.next(t); q.Params != nil || string(q.ID.Raw()) == id {
			t.Errorf("asked %+v", q)
		}
		if err := s.Deliver(t.Context(), response(t, string(q.ID.Raw()), `"error":{"code":-1,"message":"no roots"}`)); err != nil {
			t.Fatal(err)
		}
		got := <-answer
		var refused *session.RefusedError
		if !errors.As(got.err, &refused) || refused.Method != "roots/list" || refused.Message != "no roots" || !strings.Contains(refused.Error(), "no roots") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAnswersToNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{})
		s, other := open(t, m), open(t, m)
		w := make(wire, 1)
		answer := ask(t.Context(), s, w, "roots/list", "")
		id := string(w.next(t).ID.Raw())
		for name, to := range map[string]struct {
			session *session.Session
			id      string
		}{
			"an unknown id":           {s, `"ask"`},
			"a number":                {s, "1"},
			"another session":         {other, id},
			"no id":                   {s, `""`},
			"an id that is to come":   {s, strings.TrimSuffix(id, `1"`) + `2"`},
			"another session's guess": {other, strings.TrimSuffix(id, `1"`) + `1"`},
		} {
			if err := to.session.Deliver(t.Context(), response(t, to.id, `"result":{"roots":[]}`)); !errors.Is(err, session.ErrUnexpected) {
				t.Errorf("%s: %v", name, err)
			}
		}
		synctest.Wait()
		select {
		case got := <-answer:
			t.Fatalf("one of them was the answer: %+v", got)
		default:
		}
		if err := s.Deliver(t.Context(), response(t, id, `"result":{"roots":[]}`)); err != nil {
			t.Error(err)
		}
		<-answer
	})
}

// TestAClientIsNotWaitedForForEver has two ways in which the wait ends;
// the client learns it, and its late answer is no fault.
func TestAClientIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, manage(t, session.Options{AskTimeout: time.Minute}))
		w := make(wire, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		for name, tc := range map[string]struct {
			end  func()
			want error
		}{
			"time":         {func() { time.Sleep(time.Minute) }, session.ErrNoAnswer},
			"cancellation": {func() { cancel(errHungUp) }, errHungUp},
		} {
			answer := ask(ctx, s, w, "roots/list", "")
			id := string(w.next(t).ID.Raw())
			start := time.Now()
			tc.end()
			if got := <-answer; !errors.Is(got.err, tc.want) || time.Since(start) > time.Minute {
				t.Errorf("%s: %+v after %v", name, got, time.Since(start))
			}
			said := w.next(t)
			withdrawn, _ := jsontext.Lookup(said.Params, "requestId")
			if said.Method != "notifications/cancelled" || string(withdrawn) != id {
				t.Errorf("%s: the client was told %s %s", name, said.Method, said.Params)
			}
			if err := s.Deliver(t.Context(), response(t, id, `"result":{}`)); err != nil {
				t.Errorf("%s: an answer that comes late: %v", name, err)
			}
			if name == "cancellation" {
				if got := <-ask(ctx, s, w, "roots/list", ""); !errors.Is(got.err, errHungUp) || len(w) > 0 {
					t.Errorf("a question of what has ended: %+v, %d sent", got, len(w))
				}
				ctx, cancel = context.WithCancelCause(t.Context()) //nolint:fatcontext // begins anew, from the test's own
			}
		}
		cancel(nil)
	})
}

// TestLateAnswersAreLetByForAWhile bounds what a session remembers of questions
// that were given up.
func TestLateAnswersAreLetByForAWhile(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	var ids []string
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		w := make(wire, 2)
		answer := ask(ctx, s, w, "roots/list", "")
		ids = append(ids, string(w.next(t).ID.Raw()))
		cancel()
		<-answer
	}
	for i, id := range ids {
		if err := s.Deliver(t.Context(), response(t, id, `"result":{}`)); (err == nil) != (i >= 4) {
			t.Errorf("question %d: %v", i, err)
		}
	}
}

func TestTheEndOfASessionEndsItsQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{})
		s := open(t, m)
		w := make(wire, 2)
		first, second := ask(t.Context(), s, w, "roots/list", ""), ask(t.Context(), s, w, "roots/list", "")
		id := string(w.next(t).ID.Raw())
		w.next(t)
		if err := m.End(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for _, answer := range []<-chan asked{first, second, ask(t.Context(), s, w, "roots/list", "")} {
			if got := <-answer; !errors.Is(got.err, session.ErrClosed) {
				t.Errorf("got %+v", got)
			}
		}
		if err := s.Deliver(t.Context(), response(t, id, `"result":{}`)); !errors.Is(err, session.ErrUnexpected) {
			t.Errorf("an answer after the end: %v", err)
		}
		if len(w) > 0 {
			t.Errorf("%d messages to a client that has gone", len(w))
		}
	})
}

func TestAQuestionThatCannotBeSent(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	failed := errors.New("no way")
	if _, err := s.Ask(t.Context(), func([]byte) error { return failed }, "roots/list", nil); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// TestAnswersNeverCross has many sessions that ask much at a time; clients answer
// out of order, all with the same ids where the server lets them.
func TestAnswersNeverCross(t *testing.T) {
	t.Parallel()
	const sessions, questions = 16, 50
	m := manage(t, session.Options{})
	var asking, answering sync.WaitGroup
	for n := range sessions {
		s := open(t, m)
		w := make(wire, questions)
		for q := range questions {
			asking.Go(func() {
				mark := fmt.Sprintf(`{"of":"%d-%d"}`, n, q)
				got, err := s.Ask(context.Background(), w.send, "sampling/createMessage", []byte(mark))
				if err != nil || string(got) != mark {
					t.Errorf("%s was answered %s, %v", mark, got, err)
				}
			})
		}
		answering.Go(func() {
			var late []*jsonrpc.Message
			for i := range questions {
				q := <-w
				if i%3 == 0 {
					late = append(late, q)
					continue
				}
				echo(t, s, q)
			}
			for _, q := range late {
				echo(t, s, q)
			}
		})
	}
	asking.Wait()
	answering.Wait()
}

// echo answers a question with its own params, once and then again.
func echo(t *testing.T, s *session.Session, q *jsonrpc.Message) {
	text := `"result":` + string(q.Params)
	if err := s.Deliver(t.Context(), response(t, string(q.ID.Raw()), text)); err != nil {
		t.Error(err)
	}
	if err := s.Deliver(t.Context(), response(t, string(q.ID.Raw()), `"result":{"of":`+strconv.Quote("another")+`}`)); !errors.Is(err, session.ErrUnexpected) {
		t.Errorf("a second answer: %v", err)
	}
}
