// SPDX-License-Identifier: Apache-2.0

package stateview

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
)

func sessionRow(value []byte, now time.Time) ([]string, error) {
	var r statev1.SessionRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	client := r.GetContext().GetClientInfo()
	opened := ""
	if at := r.GetOpened(); at != nil {
		opened = age(at.AsTime(), now)
	}
	return []string{
		strings.TrimSpace(client.GetName() + " " + client.GetVersion()), r.GetContext().GetProtocolVersion(), r.GetPrincipal(), r.GetWrittenBy(), opened,
	}, nil
}

func sessionDocument(value []byte) (json.RawMessage, error) {
	var r statev1.SessionRecord
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	return messageJSON(&r)
}

func sessionEventRow(value []byte, _ time.Time) ([]string, error) {
	var r statev1.SessionEvent
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	return []string{strconv.FormatUint(r.GetNumber(), 10), r.GetReplica(), r.GetTool()}, nil
}

func sessionEventDocument(value []byte) (json.RawMessage, error) {
	var r statev1.SessionEvent
	if err := proto.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	return messageJSON(&r)
}
