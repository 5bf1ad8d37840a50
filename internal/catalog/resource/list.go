// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"errors"
	"fmt"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Items extracts the resources that a method among Listings lists, in order, from the JSON of its response as the
// transcoder writes it. If some items are invalid as resources, or there are too many, the error says which and why.
// The others are returned with the error.
func (m *Method) Items(response []byte) ([]*outriggerv1.Resource, error) {
	if m.items == nil {
		return nil, errors.New("the method does not list resources")
	}
	list, ok := m.items.in(response)
	if !ok {
		return nil, nil
	}
	var out []*outriggerv1.Resource
	var left []string
	n := 0
	for item := range jsontext.Elements(list) {
		n++
		if len(out) == limits().listed {
			left = append(left, fmt.Sprintf("those after the first %d", limits().listed))
			break
		}
		resource, err := m.item(item)
		if err != nil {
			left = append(left, fmt.Sprintf("item %d: %v", n, err))
			continue
		}
		out = append(out, resource)
	}
	if len(left) > 0 {
		return out, fmt.Errorf("not all items are resources: %s", shown.ClipList(left))
	}
	return out, nil
}

// item makes a resource of one item.
func (m *Method) item(item []byte) (*outriggerv1.Resource, error) {
	values := map[string]string{}
	for _, v := range m.variables {
		raw, ok := v.field.in(item)
		if !ok {
			return nil, fmt.Errorf("it has no %s", v.name)
		}
		text, isText := jsontext.Text(raw)
		if !isText {
			text = string(raw)
		}
		// What a reading would refuse is the URI of nothing.
		if _, err := appendValue(nil, v.field.last(), text); err != nil {
			return nil, err
		}
		values[v.name] = text
	}
	uri := m.template.expand(values)
	if len(uri) > limits().uri {
		return nil, fmt.Errorf("its URI has %d bytes; the limit is %d", len(uri), limits().uri)
	}
	o := m.options
	out := &outriggerv1.Resource{
		Uri: uri, Title: shown.OneSpaced(o.GetTitle()), Description: shown.Clean(o.GetDescription()),
		MimeType: o.GetMimeType(), Annotations: o.GetAnnotations(),
	}
	label := ""
	if m.label != nil {
		raw, _ := m.label.in(item)
		label, _ = jsontext.Text(raw)
		label, _ = shown.CutBytes(shown.OneSpaced(label), limits().name)
	}
	out.Name = cmp.Or(label, shown.OneSpaced(o.GetName()), m.rpc.Name)
	out.Title = cmp.Or(label, out.Title)
	return out, nil
}
