// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Missing returns the capabilities that a client must declare to be asked a question,
// but has not declared. It returns nil if the client can be asked, or the question is
// unset.
func Missing(c *outriggerv1.ClientCapabilities, request *outriggerv1.InputRequest) *outriggerv1.ClientCapabilities {
	switch q := request.GetRequest().(type) {
	case *outriggerv1.InputRequest_Elicitation:
		return missingElicitation(c.GetElicitation(), q.Elicitation)
	case *outriggerv1.InputRequest_Sampling:
		return missingSampling(c.GetSampling(), q.Sampling)
	case *outriggerv1.InputRequest_ListRoots:
		if c.GetRoots() == nil {
			return &outriggerv1.ClientCapabilities{Roots: new(outriggerv1.RootsCapability)}
		}
	}
	return nil
}

// MissingAny is Missing for all questions of an InputRequired: the capabilities that
// the client must still declare to be asked all of them, or nil if there are none.
func MissingAny(c *outriggerv1.ClientCapabilities, requests map[string]*outriggerv1.InputRequest) *outriggerv1.ClientCapabilities {
	var all *outriggerv1.ClientCapabilities
	for _, request := range requests {
		one := Missing(c, request)
		switch {
		case one == nil:
		case all == nil:
			all = one
		default:
			proto.Merge(all, one)
		}
	}
	return all
}

func missingElicitation(has *outriggerv1.ElicitationCapability, e *outriggerv1.Elicitation) *outriggerv1.ClientCapabilities {
	lacks := &outriggerv1.ElicitationCapability{
		Form: e.GetForm() != nil && !has.GetForm(),
		Url:  e.GetUrl() != nil && !has.GetUrl(),
	}
	if !lacks.Form && !lacks.Url {
		return nil
	}
	return &outriggerv1.ClientCapabilities{Elicitation: lacks}
}

func missingSampling(has *outriggerv1.SamplingCapability, s *outriggerv1.Sampling) *outriggerv1.ClientCapabilities {
	lacks := &outriggerv1.SamplingCapability{
		Tools:   usesTools(s) && !has.GetTools(),
		Context: s.GetIncludeContext() != "" && s.GetIncludeContext() != "none" && !has.GetContext(),
	}
	if has != nil && !lacks.Tools && !lacks.Context {
		return nil
	}
	return &outriggerv1.ClientCapabilities{Sampling: lacks}
}
