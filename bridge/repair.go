// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// repairedMetaKey is the member of a result's _meta that lists, as JSON Pointers
// into the arguments, what was decoded from a string; "" are the arguments.
const repairedMetaKey = "dev.outrigger/repaired"

// Repaired returns the number of calls whose arguments were decoded from
// strings.
func (b *Bridge) Repaired() uint64 { return b.repaired.Load() }

// RepairArguments decodes arguments that are an object in a JSON string, if the
// sidecar repairs arguments. Otherwise it returns them unchanged. Edges call it
// before they reject arguments that are not an object.
func (b *Bridge) RepairArguments(raw []byte) Payload {
	if !b.opts.RepairArguments {
		return Payload{Bytes: raw}
	}
	if content := objectIn(raw, "{"); content != nil {
		return Payload{Bytes: content, Repaired: true}
	}
	return Payload{Bytes: raw}
}

// objectIn returns what stands in a JSON string, where that is one whole object
// or array that begins with one of the brackets, in strict JSON and within the
// usual bounds; else nil.
func objectIn(raw []byte, brackets string) []byte {
	text, ok := jsontext.Text(raw)
	if !ok {
		return nil
	}
	content := bytes.Trim([]byte(text), " \t\r\n")
	if len(content) == 0 || strings.IndexByte(brackets, content[0]) < 0 || len(schema.Inspect(content, schema.Bounds{})) > 0 {
		return nil
	}
	return content
}

// decoded looks for what can be decoded in arguments that were refused. The
// descriptor says it of the messages of an RPC; of a declared schema it is the
// strings whose type it refuses, which are checked again as what they hold.
func (c *toolCall) decoded(arguments []byte, failed *errmap.Error) (plain []byte, places []string) {
	if !c.tool.Native {
		if plain, places = c.tool.In.Unquote(arguments); c.tool.Declared == nil || c.tool.Declared.Input == nil {
			return plain, places
		}
	} else {
		plain = arguments
	}
	for _, v := range failed.Violations {
		if v.Path == "" || slices.Contains(places, v.Path) || !slices.Contains(typeKeywords, v.Keyword) {
			continue
		}
		if changed := decodeAt(plain, strings.Split(v.Path, "/")[1:]); changed != nil {
			plain, places = changed, append(places, v.Path)
		}
	}
	return plain, places
}

// typeKeywords are what a schema says where it has no place for a string.
//
//nolint:gochecknoglobals // a list that is never changed
var typeKeywords = []string{"type", "anyOf", "oneOf"}

// decodeAt returns a document in which the value at a place is decoded; nil
// where nothing is there to decode.
func decodeAt(doc []byte, path []string) []byte {
	if len(path) == 0 {
		return objectIn(doc, "{[")
	}
	token := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	var out []byte
	isFound := false
	each := func(name string, value []byte) {
		if name == token && !isFound {
			if changed := decodeAt(value, path[1:]); changed != nil {
				value, isFound = changed, true
			}
		}
		out = append(out, value...)
		out = append(out, ',')
	}
	closing := byte('}')
	switch {
	case doc[0] == '{':
		out = append(out, '{')
		for name, value := range jsontext.Members(doc) {
			out = append(jsontext.AppendString(out, name), ':')
			each(name, value)
		}
	case doc[0] == '[':
		closing = ']'
		out = append(out, '[')
		i := 0
		for value := range jsontext.Elements(doc) {
			each(strconv.Itoa(i), value)
			i++
		}
	}
	if !isFound {
		return nil
	}
	out[len(out)-1] = closing
	return out
}

// reportRepairs says in a result what was decoded.
func (c *toolCall) reportRepairs() *errmap.Error {
	if hasResult := c.resp.Err == nil; len(c.repairs) == 0 || !hasResult {
		return nil
	}
	outcome := c.resp.ToolOutcome()
	result := outcome.GetResult()
	if result == nil {
		return nil // a question or a task: the calls that follow are of what was decoded
	}
	places, err := json.Marshal(c.repairs)
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	meta, err := mcpjson.AppendMeta(nil, result, append([]byte(`"`+repairedMetaKey+`":`), places...))
	if err != nil {
		return errmap.Unwritable(err)
	}
	result.MetaForm = &outriggerv1.ToolResult_MetaJson{MetaJson: meta}
	c.resp.Outcome, c.resp.Result = outcome, Payload{}
	return nil
}
