// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

const (
	// maxID is the maximum length of a session's id, which is a header of each request.
	maxID = 1 << 10
	// purposeID and purposeQuestion bind what is sealed to its use.
	purposeID, purposeQuestion = "session", "question"
	// maxEnded is how many ended ids a replica remembers: as many DELETEs in the time that an id is valid, at some 100 bytes each.
	maxEnded = 1 << 17
)

// key identifies a session in memory and in NATS: those who can read either cannot use the session.
type key [24]byte

func keyOf(id string) key {
	sum := sha256.Sum256([]byte(id))
	return key(sum[:])
}

func (k key) text() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// seal writes what the client said, and what else the session begins with, into its id. What the client said for display is
// left out where it is too long. The error is [ErrLargeClient].
func (s *Session) seal(client *outriggerv1.RequestContext) error {
	m := s.manager
	binding := keys.Binding{Purpose: purposeID, Principal: s.principal, TTL: m.opts.Age}
	sealed := &statev1.SealedSession{
		Opened: timestamppb.New(s.opened), Home: s.home,
		DeclaredPrompts: s.declared.Prompts, DeclaredResources: s.declared.Resources,
	}
	var err error
	if s.context, err = keptClient(client, func(c *outriggerv1.RequestContext) bool {
		sealed.Context = c
		return proto.Size(sealed) <= m.opts.MaxClient && keys.SealedLen(proto.Size(sealed)) <= maxID
	}); err != nil {
		return err
	}
	payload, err := proto.Marshal(sealed)
	if err != nil {
		return fmt.Errorf("session: encode an id: %w", err)
	}
	if s.id, err = m.opts.Sealer.Seal(binding, payload); err != nil {
		return fmt.Errorf("session: generate an id: %w", err)
	}
	return nil
}

// open reads what seal wrote, for a session of a caller. The error is [ErrUnknown].
func (m *Manager) open(principal, id string) (*Session, error) {
	payload, until, err := m.opts.Sealer.OpenUntil(keys.Binding{Purpose: purposeID, Principal: principal}, id)
	sealed := new(statev1.SealedSession)
	switch {
	case errors.Is(err, keys.ErrExpired):
		m.mu.Lock()
		m.tooOld++
		m.mu.Unlock()
		return nil, ErrUnknown
	case err != nil, proto.Unmarshal(payload, sealed) != nil:
		return nil, ErrUnknown
	}
	s := m.newSession(principal)
	s.id, s.home, s.expires, s.opened = id, sealed.GetHome(), until, sealed.GetOpened().AsTime()
	s.context, s.declared = sealed.GetContext(), Lists{Prompts: sealed.GetDeclaredPrompts(), Resources: sealed.GetDeclaredResources()}
	return s, nil
}

// keptClient is a copy of what a client said that fits, free of the message that it came in. Who the client is, is for display
// only, and left out where it is too long.
func keptClient(client *outriggerv1.RequestContext, fits func(*outriggerv1.RequestContext) bool) (*outriggerv1.RequestContext, error) {
	kept := proto.CloneOf(client)
	if !fits(kept) && kept.GetClientInfo() != nil {
		kept.ClientInfo.Icons = nil
	}
	if !fits(kept) && kept.GetClientInfo() != nil {
		kept.ClientInfo = &outriggerv1.Implementation{Name: kept.GetClientInfo().GetName(), Version: kept.GetClientInfo().GetVersion()}
	}
	if !fits(kept) && kept != nil {
		kept.ClientInfo = nil
	}
	if !fits(kept) {
		return nil, ErrLargeClient
	}
	return kept, nil
}

// endedIDs are the ids that clients have ended, for as long as one may be valid. Where there are too many, the oldest are
// forgotten.
type endedIDs struct {
	age time.Duration

	mu    sync.Mutex
	known map[key]struct{}
	order []endedID
}

type endedID struct {
	key   key
	until time.Time
}

func (e *endedIDs) add(k key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for len(e.order) > 0 && (len(e.order) >= maxEnded || !now.Before(e.order[0].until)) {
		delete(e.known, e.order[0].key)
		e.order = e.order[1:]
	}
	if len(e.order) == 0 {
		e.known, e.order = map[key]struct{}{}, nil
	}
	if _, ok := e.known[k]; !ok {
		e.known[k] = struct{}{}
		e.order = append(e.order, endedID{k, now.Add(e.age)})
	}
}

func (e *endedIDs) has(k key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.known[k]
	return ok
}
