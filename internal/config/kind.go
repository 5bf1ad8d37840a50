// SPDX-License-Identifier: Apache-2.0

package config

// Kind is the kind of command that a configuration is for. It decides which
// flags there are, what the defaults are, and which checks apply.
type Kind uint8

const (
	// Serve is a command that opens the listeners.
	Serve Kind = 1 << iota
	// Stdio is a command that speaks over standard input and output. It opens
	// only the listeners that are given, and records nothing unless told to.
	Stdio
	// Once is a command that does one thing with the tool service and ends
	// (tools, call, doctor). It opens no listener.
	Once
)
