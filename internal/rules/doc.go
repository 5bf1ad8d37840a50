// SPDX-License-Identifier: Apache-2.0

// Package rules decides by rules in CEL who may call which tools with which
// arguments.
//
// [Compile] makes a [Set] of rules and reports what is wrong with them. A Set
// compiles its rules for a tool when it first meets the tool, against the tool's
// input: the descriptor of its request, or the JSON schema of a native tool. Tools
// with the same request share programs.
//
// A rule sees three variables. "args" are the arguments, "caller" is who calls and
// "tool" is the tool. Rules without args also decide which tools a caller sees. A
// tool that any allow rule matches is denied unless one of them holds; a deny rule
// that holds takes precedence. A rule that fails or costs too much counts against
// the caller.
//
// An [Engine] holds the Set in use, which may be replaced at any time. Each decision
// is made by one Set. Everything is safe for concurrent use.
package rules
