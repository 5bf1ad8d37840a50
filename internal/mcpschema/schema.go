// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The revisions that have a schema.
const (
	Revision20241105 = "2024-11-05"
	Revision20250326 = "2025-03-26"
	Revision20250618 = "2025-06-18"
	Revision20251125 = "2025-11-25"
	Revision20260728 = "2026-07-28"
)

// Revisions returns all revisions that have a schema, the oldest first.
func Revisions() []string {
	return []string{Revision20241105, Revision20250326, Revision20250618, Revision20251125, Revision20260728}
}

// Direction says who sends a message.
type Direction uint8

// The directions.
const (
	FromClient Direction = iota
	FromServer
	directions
)

// String returns who sends.
func (d Direction) String() string {
	if d == FromClient {
		return "client"
	}
	return "server"
}

// Schema is the schema of one revision.
type Schema struct {
	revision string
	// modern: the era of 2026-07-28, without sessions.
	modern bool
	defs   map[string]*jsonschema.Schema
	// requests and notifications are names of definitions by their method, results
	// by the method of their request.
	requests, notifications [directions]map[string]string
	results                 map[string]string
}

// tasksSchema describes the extension io.modelcontextprotocol/tasks.
//
//go:embed tasks.schema.json
var tasksSchema []byte

// Load returns the schema of a revision. Where the official schemas are missing
// it skips the test.
func Load(tb testing.TB, revision string) *Schema {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(folder(tb), revision, "schema.json"))
	if err != nil {
		tb.Fatalf("the schema of MCP %s: %v", revision, err)
	}
	s, err := compile(revision, text)
	if err != nil {
		tb.Fatalf("the schema of MCP %s: %v", revision, err)
	}
	return s
}

// base is where the documents are inside of the compiler. Nothing is ever loaded
// from it.
const base = "mem:///"

func compile(revision string, text []byte) (*Schema, error) {
	s := &Schema{revision: revision, modern: revision == Revision20260728, defs: map[string]*jsonschema.Schema{}, results: map[string]string{}}
	for d := range directions {
		s.requests[d], s.notifications[d] = map[string]string{}, map[string]string{}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	// The library has no notion of these two.
	c.RegisterFormat(&jsonschema.Format{Name: "byte", Validate: checkBase64})
	c.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: checkTemplate})
	if err := s.add(c, base+"schema.json", text); err != nil {
		return nil, err
	}
	if s.modern {
		if err := s.add(c, base+"tasks.schema.json", tasksSchema); err != nil {
			return nil, fmt.Errorf("tasks: %w", err)
		}
	}
	return s, nil
}

// document is what is read of a schema beside compiling it.
type document struct {
	Defs        map[string]definition `json:"$defs"`
	Definitions map[string]definition `json:"definitions"`
}

type definition struct {
	AnyOf []struct {
		Ref string `json:"$ref"`
	} `json:"anyOf"`
	Properties struct {
		Method struct {
			Const string `json:"const"`
		} `json:"method"`
	} `json:"properties"`
}

func (s *Schema) add(c *jsonschema.Compiler, url string, text []byte) error {
	source, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := c.AddResource(url, source); err != nil {
		return err
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	// The older revisions are of draft 7, which has the older keyword.
	defs, keyword := doc.Defs, "$defs"
	if defs == nil {
		defs, keyword = doc.Definitions, "definitions"
	}
	for name := range defs {
		if s.defs[name] != nil {
			continue // the extension adds to the core's unions
		}
		if s.defs[name], err = c.Compile(url + "#/" + keyword + "/" + name); err != nil {
			return err
		}
	}
	s.methods(defs)
	return nil
}

// methods reads who may send what from the unions of a document, and what
// answers it.
func (s *Schema) methods(defs map[string]definition) {
	for union, into := range map[string]map[string]string{
		"ClientRequest": s.requests[FromClient], "ServerRequest": s.requests[FromServer],
		"ClientNotification": s.notifications[FromClient], "ServerNotification": s.notifications[FromServer],
	} {
		if method := defs[union].Properties.Method.Const; method != "" {
			into[method] = union // a union of one is no union
		}
		for _, member := range defs[union].AnyOf {
			name := member.Ref[strings.LastIndexByte(member.Ref, '/')+1:]
			into[defs[name].Properties.Method.Const] = name
		}
	}
	for d := range directions {
		for method, name := range s.requests[d] {
			result := strings.TrimSuffix(name, "Request") + "Result"
			if s.defs[result] == nil {
				result = emptyResult
			}
			s.results[method] = result
		}
	}
}

// emptyResult answers requests that have no definition of a result.
const emptyResult = "EmptyResult"
