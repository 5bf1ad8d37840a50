// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// MaxFileBytes is the maximum size of the configuration file. It is the limit of a
// Kubernetes ConfigMap, so a larger file could not be deployed everywhere.
const MaxFileBytes = 1 << 20

// maxFileDepth bounds how deep the file may be nested. It is the bound on
// callers' JSON; the message itself needs less than ten levels.
const maxFileDepth = 64

// readFile reads the file into the draft.
func (d *draft) readFile(name string, at origin, most int64) {
	kind := "configuration file"
	if d.kind != "" {
		kind = d.kind
	}
	data, err := readBounded(kind, name, most)
	if err != nil {
		d.unread = true
		d.fault(at, "", "%s", err)
		return
	}
	d.readYAML(name, data)
}

// readBounded reads a whole file, or says why not in words that need no name
// before them but the flag's.
func readBounded(kind, name string, most int64) ([]byte, error) {
	if why := notAFile(name); why != "" {
		return nil, fmt.Errorf("the %s %s %s", kind, name, why)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", kind, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", kind, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("the %s %s is larger than %d bytes", kind, name, most)
	}
	return data, nil
}

// readYAML reads one YAML document into the draft. An empty one says nothing.
func (d *draft) readYAML(name string, data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, further yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		d.unreadable(name, err)
		return
	}
	w := walker{draft: d, file: name}
	if err := decoder.Decode(&further); err == nil {
		w.fault(&further, "", "a second YAML document; one file holds one configuration")
	} else if !errors.Is(err, io.EOF) {
		d.unreadable(name, err)
		return
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return
	}
	w.message(document.Content[0], d.root.ProtoReflect(), "", 0)
}

// unreadable records a syntax error. The parser has no type for its errors; the
// line is in the text.
func (d *draft) unreadable(name string, err error) {
	d.unread = true
	at := origin{source: name}
	text := err.Error()
	if m := regexp.MustCompile(`^yaml: line (\d+): (.*)$`).FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			at.line, at.column, text = line, 1, m[2]
		}
	}
	// A value that begins with "*" and has no quotes is an alias; it may be a credential.
	text = regexp.MustCompile(`unknown anchor '.*' referenced`).ReplaceAllString(text, "unknown anchor: a value that begins with * needs quotes")
	if d.secret {
		text = "the text here is not well-formed" // the parser's words may quote it
	}
	d.fault(at, "", "is not YAML: %s", text)
}
