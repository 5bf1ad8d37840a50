// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// tasksExtension is MCP's identifier of the tasks extension, which ClientCapabilities also has as a field of its own.
const tasksExtension = "io.modelcontextprotocol/tasks"

// wireCapabilities is the shape of MCP's ClientCapabilities in JSON. Members that this package does not know get lost.
type wireCapabilities struct {
	Elicitation  *wireElicitation           `json:"elicitation,omitempty"`
	Sampling     *wireSampling              `json:"sampling,omitempty"`
	Roots        *wireRoots                 `json:"roots,omitempty"`
	Extensions   map[string]json.RawMessage `json:"extensions,omitempty"`
	Experimental map[string]json.RawMessage `json:"experimental,omitempty"`
}

type wireElicitation struct {
	Form *struct{} `json:"form,omitempty"`
	URL  *struct{} `json:"url,omitempty"`
}

type wireSampling struct {
	Tools   *struct{} `json:"tools,omitempty"`
	Context *struct{} `json:"context,omitempty"`
}

type wireRoots struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// missingCapabilities reads the outrigger.v1.MissingCapabilities among details; nil where there is none.
func missingCapabilities(details []*anypb.Any) *outriggerv1.ClientCapabilities {
	for _, d := range details {
		missing := new(outriggerv1.MissingCapabilities)
		if d.MessageIs(missing) && d.UnmarshalTo(missing) == nil {
			if required := missing.GetRequiredCapabilities(); required != nil {
				return required
			}
			return new(outriggerv1.ClientCapabilities)
		}
	}
	return nil
}

func isMissingCapabilities(d *anypb.Any) bool {
	return d.MessageIs((*outriggerv1.MissingCapabilities)(nil))
}

// capabilitiesJSON writes the message as MCP's ClientCapabilities.
func capabilitiesJSON(c *outriggerv1.ClientCapabilities) json.RawMessage {
	var w wireCapabilities
	if e := c.GetElicitation(); e != nil {
		w.Elicitation = &wireElicitation{Form: yes(e.GetForm()), URL: yes(e.GetUrl())}
	}
	if s := c.GetSampling(); s != nil {
		w.Sampling = &wireSampling{Tools: yes(s.GetTools()), Context: yes(s.GetContext())}
	}
	if r := c.GetRoots(); r != nil {
		w.Roots = &wireRoots{ListChanged: r.GetListChanged()}
	}
	w.Extensions = settings(c.GetExtensions(), c.GetExtensionsJson())
	if _, ok := w.Extensions[tasksExtension]; c.GetTasks() && !ok {
		if w.Extensions == nil {
			w.Extensions = make(map[string]json.RawMessage, 1)
		}
		w.Extensions[tasksExtension] = json.RawMessage("{}")
	}
	w.Experimental = settings(c.GetExperimental(), c.GetExperimentalJson())
	out, err := json.Marshal(w)
	if err != nil {
		return json.RawMessage("{}") // a settings object that is not valid JSON: the names are lost, the answer is not
	}
	return out
}

// settings reads a map of settings objects in either of its forms; one that is no JSON object is nil.
func settings(s *structpb.Struct, text []byte) map[string]json.RawMessage {
	if s != nil {
		raw, err := protojson.Marshal(s)
		if err != nil {
			return nil
		}
		text = raw
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}

// yes is MCP's way to say yes: an empty object.
func yes(set bool) *struct{} {
	if !set {
		return nil
	}
	return &struct{}{}
}

// spelledOut is the message with what MCP's JSON leaves to its reader: an elicitation that names no mode means forms, and
// tasks are an extension too. So both kinds of edges say the same.
func spelledOut(required *outriggerv1.ClientCapabilities) *outriggerv1.ClientCapabilities {
	return capabilitiesMessage(capabilitiesJSON(required))
}

// capabilitiesMessage reads MCP's ClientCapabilities. What is not an object of that shape is an empty message.
func capabilitiesMessage(raw json.RawMessage) *outriggerv1.ClientCapabilities {
	c := new(outriggerv1.ClientCapabilities)
	var w wireCapabilities
	if json.Unmarshal(raw, &w) != nil {
		return c
	}
	if e := w.Elicitation; e != nil {
		c.Elicitation = &outriggerv1.ElicitationCapability{Form: e.Form != nil || e.URL == nil, Url: e.URL != nil}
	}
	if s := w.Sampling; s != nil {
		c.Sampling = &outriggerv1.SamplingCapability{Tools: s.Tools != nil, Context: s.Context != nil}
	}
	if r := w.Roots; r != nil {
		c.Roots = &outriggerv1.RootsCapability{ListChanged: r.ListChanged}
	}
	if text := compactMap(w.Extensions); text != nil {
		_, c.Tasks = w.Extensions[tasksExtension]
		c.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: text}
	}
	if text := compactMap(w.Experimental); text != nil {
		c.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: text}
	}
	return c
}

// compactMap writes a map of settings on one line, names sorted; nil for an empty one.
func compactMap(m map[string]json.RawMessage) []byte {
	if len(m) == 0 {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return text
}
