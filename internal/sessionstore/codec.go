// SPDX-License-Identifier: Apache-2.0

package sessionstore

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// encode writes a session as it is stored. Equal ones have equal bytes.
func encode(r *session.Record) ([]byte, error) {
	record := &statev1.SessionRecord{
		Principal: r.Principal, Context: r.Context, Level: r.Level, WrittenBy: r.WrittenBy, Teller: r.Teller, Catalog: r.Catalog,
		DeclaredPrompts: r.Declared.Prompts, DeclaredResources: r.Declared.Resources,
	}
	if !r.Opened.IsZero() {
		record.Opened = timestamppb.New(r.Opened)
	}
	for _, w := range r.Watched {
		record.Watched = append(record.Watched, &statev1.WatchedResource{Uri: w.URI, IsWatch: w.IsWatch})
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode a session: %w", err)
	}
	return value, nil
}

// decode reads what encode wrote, here or at a replica of the release before or after.
func decode(key string, value []byte, revision uint64) (session.Record, error) {
	record := new(statev1.SessionRecord)
	if err := proto.Unmarshal(value, record); err != nil {
		return session.Record{}, fmt.Errorf("decode session %s: %w", key, err)
	}
	r := session.Record{
		Key: key, Revision: revision, Principal: record.GetPrincipal(), Context: record.GetContext(), Opened: record.GetOpened().AsTime(),
		Level: record.GetLevel(), WrittenBy: record.GetWrittenBy(), Teller: record.GetTeller(), Catalog: record.GetCatalog(),
		Declared: session.Lists{Prompts: record.GetDeclaredPrompts(), Resources: record.GetDeclaredResources()},
	}
	for _, w := range record.GetWatched() {
		r.Watched = append(r.Watched, session.Watched{URI: w.GetUri(), IsWatch: w.GetIsWatch()})
	}
	return r, nil
}

// encodeEvent writes an event, or a part of one, as it is stored.
func encodeEvent(e *session.StoredEvent, message []byte, more bool) ([]byte, error) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(&statev1.SessionEvent{
		Replica: e.Replica, Number: e.Number, Message: message, More: more, Last: e.Last && !more,
		IsMain: e.Begun.IsMain, RequestId: e.Begun.RequestID, Tool: e.Begun.Tool, Idempotent: e.Begun.Idempotent, Span: e.Begun.Span,
	})
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return value, nil
}

// decodeEvent reads what encodeEvent wrote, and whether more of the event follows.
func decodeEvent(value []byte, sequence uint64) (session.StoredEvent, bool, error) {
	stored := new(statev1.SessionEvent)
	if err := proto.Unmarshal(value, stored); err != nil {
		return session.StoredEvent{}, false, fmt.Errorf("decode an event: %w", err)
	}
	return session.StoredEvent{
		Sequence: sequence, Replica: stored.GetReplica(), Number: stored.GetNumber(), Message: stored.GetMessage(), Last: stored.GetLast(),
		Begun: session.Begun{
			IsMain: stored.GetIsMain(), RequestID: stored.GetRequestId(), Tool: stored.GetTool(), Idempotent: stored.GetIdempotent(), Span: stored.GetSpan(),
		},
	}, stored.GetMore(), nil
}

// encodeMessage writes what one replica tells others.
func encodeMessage(m *session.Message) ([]byte, error) {
	out := &statev1.ReplicaMessage{Session: m.Key}
	switch {
	case m.Answer != nil:
		out.Kind = &statev1.ReplicaMessage_Answer{Answer: &statev1.ClientAnswer{
			Id: m.Answer.ID, Result: m.Answer.Result, IsError: m.Answer.IsError, ErrorMessage: m.Answer.Failed,
		}}
	case m.Cancel != nil:
		out.Kind = &statev1.ReplicaMessage_Cancel{Cancel: &statev1.ClientCancel{RequestId: m.Cancel.RequestID, Reason: m.Cancel.Reason}}
	case m.MayEnd:
		out.Kind = &statev1.ReplicaMessage_MayEnd{MayEnd: &statev1.MayEnd{}}
	case m.Moved != nil:
		out.Kind = &statev1.ReplicaMessage_Moved{Moved: &statev1.StreamMoved{Stream: m.Moved.Stream, To: m.Moved.To, At: timestamppb.New(m.Moved.At)}}
	}
	value, err := proto.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return value, nil
}

// decodeMessage reads what encodeMessage wrote. One of a kind that this release does not know
// has none of its parts.
func decodeMessage(value []byte) (session.Message, error) {
	in := new(statev1.ReplicaMessage)
	if err := proto.Unmarshal(value, in); err != nil {
		return session.Message{}, fmt.Errorf("decode a message: %w", err)
	}
	m := session.Message{Key: in.GetSession()}
	switch kind := in.GetKind().(type) {
	case *statev1.ReplicaMessage_Answer:
		a := kind.Answer
		m.Answer = &session.Answer{ID: a.GetId(), Result: a.GetResult(), IsError: a.GetIsError(), Failed: a.GetErrorMessage()}
	case *statev1.ReplicaMessage_Cancel:
		m.Cancel = &session.Cancel{RequestID: kind.Cancel.GetRequestId(), Reason: kind.Cancel.GetReason()}
	case *statev1.ReplicaMessage_MayEnd:
		m.MayEnd = true
	case *statev1.ReplicaMessage_Moved:
		m.Moved = &session.Moved{Stream: kind.Moved.GetStream(), To: kind.Moved.GetTo()}
		if at := kind.Moved.GetAt(); at.IsValid() {
			m.Moved.At = at.AsTime()
		}
	}
	return m, nil
}
