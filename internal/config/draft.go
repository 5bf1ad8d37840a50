// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// origin is where a value came from. The zero value is a default.
type origin struct {
	source       string
	line, column int
}

// draft is a configuration in the making: the message, where each value of it
// came from, and what was found wrong so far.
type draft struct {
	// root is the message in the making; config is the same where it is a
	// configuration, else nil.
	root proto.Message
	// kind names the file for people; empty for the configuration file.
	kind    string
	config  *configv1.Config
	origins map[string]origin
	// secret: the file may hold credentials, or what somebody took for the place
	// of one. No part of its text is repeated.
	secret bool
	// faulty are the paths that are known to be wrong. Later checks are silent
	// about them, because the value that they would see is not the one meant.
	faulty map[string]bool
	// misspelt are the paths that an unknown key was probably meant to be. They
	// are not missing.
	misspelt map[string]bool
	faults   []Fault
	warnings []Fault
	// unread is set when the file could not be understood as a whole, so that
	// what seems to be missing may well be in it.
	unread bool
}

func newDraft(defaults *configv1.Config) *draft {
	d := newDraftOf(defaults)
	d.config = defaults
	return d
}

func newDraftOf(root proto.Message) *draft {
	return &draft{root: root, origins: make(map[string]origin), faulty: make(map[string]bool), misspelt: make(map[string]bool)}
}

// replace remembers that a stronger source set a value, and forgets what the
// file said about it and its parts.
func (d *draft) replace(path string, at origin) {
	for p := range d.origins {
		if isWithin(p, path) {
			delete(d.origins, p)
		}
	}
	d.origins[path] = at
}

// given reports whether the path was set by anyone.
func (d *draft) given(path string) bool {
	_, ok := d.origins[path]
	return ok
}

// at finds where a value, or else the closest thing around it, came from.
func (d *draft) at(path string) origin {
	for p := path; p != ""; p = parent(p) {
		if at, ok := d.origins[p]; ok {
			return at
		}
	}
	return origin{}
}

// fault records what is wrong with a value that was read at a known place.
func (d *draft) fault(at origin, path, format string, args ...any) {
	d.faulty[path] = true
	d.faults = append(d.faults, at.fault(path, fmt.Sprintf(format, args...)))
}

// judge records what a later check says, unless the value was found wrong
// already.
func (d *draft) judge(path, message string) {
	if isVariable(path) {
		d.faults = append(d.faults, Fault{Source: path, Message: message})
		return
	}
	for p := path; p != ""; p = parent(p) {
		if d.faulty[p] || (d.misspelt[p] && !d.given(p)) {
			return
		}
	}
	d.fault(d.at(path), path, "%s", message)
}

// isVariable reports whether a path is the name of an environment variable.
func isVariable(path string) bool { return path != "" && path == strings.ToUpper(path) }

func (d *draft) warn(path, message string) {
	d.warnings = append(d.warnings, d.at(path).fault(path, message))
}

func (o origin) fault(path, message string) Fault {
	return Fault{Source: o.source, Path: path, Line: o.line, Column: o.column, Message: message}
}

// parent cuts the last part off a path: "a.b[2]" gives "a.b", then "a", then "".
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// isWithin reports whether p is the path itself or a part of it.
func isWithin(p, path string) bool {
	rest, ok := strings.CutPrefix(p, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
