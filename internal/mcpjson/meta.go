// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// MetaHolder is a message with MCP's _meta in its two forms. Most messages of
// outrigger.v1 that become an object of MCP are one.
type MetaHolder interface {
	GetMeta() *structpb.Struct
	GetMetaJson() []byte
}

// AppendMeta appends one object: the _meta of a message, followed by the members that
// the edge owns, which replace members of the same name. The owned members are trusted
// compact JSON without enclosing braces, separated by commas, such as AppendResultMeta
// appends. from may be nil, and owned may be empty. No value is decoded. The object is
// {} if there are no members.
func AppendMeta(dst []byte, from MetaHolder, owned []byte) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	meta := w.meta(from)
	if len(meta) == 0 || len(owned) == 0 {
		return w.wholeMeta(meta, owned)
	}
	replaced := append(append(make([]byte, 0, len(owned)+2), '{'), owned...)
	replaced = append(replaced, '}')
	w.raw("{")
	for name, value := range jsontext.Members(meta) {
		if _, ok := jsontext.Lookup(replaced, name); !ok {
			w.key(name)
			w.dst = append(w.dst, value...)
		}
	}
	w.comma()
	w.dst = append(w.dst, owned...)
	w.raw("}")
	return w.done()
}

// wholeMeta appends what needs no merging.
func (w *writer) wholeMeta(meta, owned []byte) ([]byte, error) {
	if len(meta) > 0 {
		w.dst = append(w.dst, meta...)
		return w.done()
	}
	w.raw("{")
	w.dst = append(w.dst, owned...)
	w.raw("}")
	return w.done()
}

// meta returns the _meta of a message as compact JSON, nil where there is none.
func (w *writer) meta(from MetaHolder) []byte {
	if from == nil {
		return nil
	}
	text := from.GetMetaJson()
	w.enter(formName("meta_json", text))
	defer w.leave()
	meta := w.freeForm(text, from.GetMeta())
	if meta != nil && !jsontext.IsObject(meta) {
		w.fail("Make it a JSON object.")
	}
	return meta
}
