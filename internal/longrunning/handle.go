// SPDX-License-Identifier: Apache-2.0

package longrunning

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxName is the maximum size of an operation's name, in bytes. Handles of longer names
// would not fit into the ids of tasks (2,048 characters when sealed).
const MaxName = 1024

// maxTool bounds the name of a tool in a handle: that of the contract.
const maxTool = 256

// Handle is what is sealed for a caller, so that any replica can go on with an operation.
type Handle struct {
	// Name is the operation's name.
	Name string
	// Tool is the canonical name of the tool whose call began the operation.
	Tool string
	// Created is when that was, to the millisecond.
	Created time.Time
	// Fields, Budget and ForModel are how much of its result that call wanted (fit.Wanted).
	Fields   string
	Budget   int
	ForModel bool
	// IsMaskLost is set if Fields was too long to be kept.
	IsMaskLost bool
}

// handleVersion begins an encoded handle.
const handleVersion = 1

// Numbers of the fields of an encoded handle.
const (
	handleName    = 1
	handleTool    = 2
	handleCreated = 3
	handleFields  = 4
	handleBudget  = 5
	handleFlags   = 6
)

// Bits of handleFlags.
const (
	flagForModel   = 1
	flagIsMaskLost = 2
)

// The bounds of what a handle says about the result: those of a field mask and of a budget.
const (
	maxFields = 8192
	maxBudget = 1 << 30
)

// ErrNoHandle means that bytes are no encoded [Handle].
var ErrNoHandle = errors.New("longrunning: no handle of an operation")

// Encode returns the bytes to seal. The error says that the name is too long.
func (h Handle) Encode() ([]byte, error) {
	if len(h.Name) > MaxName {
		return nil, fmt.Errorf("longrunning: the operation's name has %d bytes; the limit is %d", len(h.Name), MaxName)
	}
	out := protowire.AppendTag([]byte{handleVersion}, handleName, protowire.BytesType)
	out = protowire.AppendTag(protowire.AppendString(out, h.Name), handleTool, protowire.BytesType)
	out = protowire.AppendTag(protowire.AppendString(out, h.Tool), handleCreated, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(h.Created.UnixMilli()))
	if h.Fields != "" {
		out = protowire.AppendString(protowire.AppendTag(out, handleFields, protowire.BytesType), h.Fields)
	}
	if h.Budget > 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, handleBudget, protowire.VarintType), uint64(h.Budget))
	}
	if flags := h.flags(); flags != 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, handleFlags, protowire.VarintType), flags)
	}
	return out, nil
}

func (h *Handle) flags() uint64 {
	var flags uint64
	if h.ForModel {
		flags |= flagForModel
	}
	if h.IsMaskLost {
		flags |= flagIsMaskLost
	}
	return flags
}

// ParseHandle reads what Encode has written. Fields of later versions are ignored. The error
// is ErrNoHandle.
func ParseHandle(raw []byte) (Handle, error) {
	var h Handle
	if len(raw) == 0 || raw[0] != handleVersion {
		return h, ErrNoHandle
	}
	for raw = raw[1:]; len(raw) > 0; {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return Handle{}, ErrNoHandle
		}
		size := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if size < 0 {
			return Handle{}, ErrNoHandle
		}
		switch value := raw[n : n+size]; kind {
		case protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			h.setText(number, string(text))
		case protowire.VarintType:
			value, _ := protowire.ConsumeVarint(value)
			h.setNumber(number, value)
		}
		raw = raw[n+size:]
	}
	if !isText(h.Name, MaxName) || !isText(h.Tool, maxTool) || !isMoment(h.Created) || h.Fields != "" && !isText(h.Fields, maxFields) {
		return Handle{}, ErrNoHandle
	}
	return h, nil
}

func (h *Handle) setText(number protowire.Number, text string) {
	switch number {
	case handleName:
		h.Name = text
	case handleTool:
		h.Tool = text
	case handleFields:
		h.Fields = text
	}
}

func (h *Handle) setNumber(number protowire.Number, value uint64) {
	switch number {
	case handleCreated:
		h.Created = time.UnixMilli(int64(value))
	case handleBudget:
		h.Budget = int(min(value, maxBudget))
	case handleFlags:
		h.ForModel, h.IsMaskLost = value&flagForModel != 0, value&flagIsMaskLost != 0
	}
}

func isText(s string, most int) bool { return s != "" && len(s) <= most && utf8.ValidString(s) }

// isMoment holds for times that a Timestamp can hold and that lie after 1970.
func isMoment(t time.Time) bool { return t.Unix() > 0 && t.Year() < 10_000 }
