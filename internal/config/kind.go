// SPDX-License-Identifier: Apache-2.0

package config

// Kind is the kind of command that a configuration is for. It determines the
// available flags, the defaults, and the checks that apply.
type Kind uint8

const (
	// Serve is a command that opens the listeners.
	Serve Kind = 1 << iota
	// Stdio is a command that communicates over standard input and output. It opens
	// only the listeners that are configured, and records nothing by default.
	Stdio
	// Once is a command that performs one operation with the tool service and exits
	// (tools, call, doctor). It opens no listener.
	Once
	// State is a command that looks at what replicas share. It needs no backend.
	State
)
