// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	mcpsession "github.com/outrigger-mcp/outrigger/internal/session"
)

// methodInitialized is what a legacy client sends when it is ready for messages
// that belong to no request.
const methodInitialized = "notifications/initialized"

// open takes the session that initialize opened. A client that opens again
// begins anew.
func (s *session) open(opened *mcpsession.Session) {
	s.forget()
	s.opened = opened
}

// forget ends the legacy session, and gives up what it waits for.
func (s *session) forget() {
	if s.opened == nil {
		return
	}
	_ = s.rpc.Sessions().End(s.run, s.opened) // it may have ended already
	s.opened.Release()
	s.opened = nil
}

// answered takes what is meant for the session itself: answers to its questions,
// and the word that changes may be told from now on. It reports whether that was
// all of it.
func (s *session) answered(msg *jsonrpc.Message) bool {
	if s.opened == nil || msg.Fault != nil {
		return false
	}
	switch msg.Kind {
	case jsonrpc.KindSuccess, jsonrpc.KindError:
		return s.opened.Deliver(s.run, msg) == nil
	case jsonrpc.KindNotification:
		if msg.Method == methodInitialized && s.opened.Started() {
			s.follow(s.opened)
		}
	}
	return false
}

// follow tells the client of changes until its session or the process ends.
func (s *session) follow(opened *mcpsession.Session) {
	s.running.Go(func() {
		ctx, cancel := context.WithCancel(s.run)
		defer cancel()
		for {
			change, err := opened.NextChange(ctx)
			if err != nil {
				return
			}
			if message := s.rpc.ChangeNotification(opened, change); message != nil && s.send(message) != nil {
				return
			}
		}
	})
}
