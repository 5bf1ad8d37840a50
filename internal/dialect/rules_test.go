// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestOnlyThreeMethodsCanAsk: of all that a backend answers, these messages alone have room for questions, so that no
// other method of MCP can ask (MCP 2026-07-28, multi round-trip requests). A task asks by its own rules.
func TestOnlyThreeMethodsCanAsk(t *testing.T) {
	t.Parallel()
	var can []string
	methods := outriggerv1.File_outrigger_v1_tool_service_proto.Services().ByName("ToolService").Methods()
	for i := range methods.Len() {
		if hasQuestions(methods.Get(i).Output(), map[protoreflect.FullName]bool{}) {
			can = append(can, string(methods.Get(i).Name()))
		}
	}
	if diff := cmp.Diff([]string{"CallTool", "CallToolStream", "ReadResource", "GetPrompt"}, can); diff != "" {
		t.Errorf("methods that can ask (-want +got):\n%s", diff)
	}
}

func hasQuestions(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if md.FullName() == "outrigger.v1.InputRequired" {
		return true
	}
	if seen[md.FullName()] {
		return false
	}
	seen[md.FullName()] = true
	fields := md.Fields()
	for i := range fields.Len() {
		if inner := fields.Get(i).Message(); inner != nil && hasQuestions(inner, seen) {
			return true
		}
	}
	return false
}

// TestOwnKeysOfMetaKeepTheSyntax looks at every _meta that the sidecar or a backend sent in a golden conversation: each key
// has the syntax of MCP (a prefix of labels, a slash, a name), and of the prefixes that MCP keeps for itself only its own keys
// are used.
func TestOwnKeysOfMetaKeepTheSyntax(t *testing.T) {
	t.Parallel()
	const label, name = `[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?`, `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`
	syntax := regexp.MustCompile(`^(` + label + `(\.` + label + `)*/)?` + name + `$`)
	reserved := regexp.MustCompile(`^[^./]+\.(modelcontextprotocol|mcp)[./]`)
	theirs := []string{"io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId"}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, ".send") || f.Name == "rig" {
				continue // what clients send is theirs
			}
			for at := bytes.IndexByte(f.Data, '{'); at >= 0 && at < len(f.Data); {
				decoder := json.NewDecoder(bytes.NewReader(f.Data[at:]))
				var document any
				if decoder.Decode(&document) == nil {
					metaKeys(document, keys)
					at += int(decoder.InputOffset())
				} else {
					at++
				}
				next := bytes.IndexByte(f.Data[at:], '{')
				if next < 0 {
					break
				}
				at += next
			}
		}
	}
	for _, own := range []string{"io.modelcontextprotocol/serverInfo", "dev.outrigger/tool"} {
		if !keys[own] {
			t.Errorf("%s is nowhere: are the files read as they are meant? %v", own, keys)
		}
	}
	for key := range keys {
		if !syntax.MatchString(key) {
			t.Errorf("%q is no key of _meta", key)
		}
		if reserved.MatchString(key) && !slices.Contains(theirs, key) {
			t.Errorf("%q is in a space of MCP's own", key)
		}
	}
}

// metaKeys adds the keys of every _meta in a JSON value.
func metaKeys(value any, keys map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if meta, ok := member.(map[string]any); ok && name == "_meta" {
				for key := range meta {
					keys[key] = true
				}
			}
			metaKeys(member, keys)
		}
	case []any:
		for _, element := range value {
			metaKeys(element, keys)
		}
	}
}
