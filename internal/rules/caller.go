// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"errors"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

// callerName and toolName are the types of the variables caller and tool.
const (
	callerName = "#caller"
	toolName   = "#tool"
)

// caller is who calls, as rules see it.
type caller struct {
	opaque
	name, issuer, subject, clientID, source, groups, scopes, claims ref.Val
	// groupsUnknown is set where the token says that the caller has groups that are not in
	// it.
	groupsUnknown bool
}

// newCaller makes the caller of an identity. A nil identity is a caller without
// authentication, whose fields are empty.
func newCaller(who *access.Identity, adapter types.Adapter) *caller {
	facts := who.Facts()
	c := &caller{
		name: types.String(who.Name()), issuer: types.String(facts.Issuer), subject: types.String(facts.Subject),
		clientID: types.String(facts.ClientID), source: types.String(facts.Source),
		groups: types.NewStringList(adapter, facts.Groups), scopes: types.NewStringList(adapter, facts.Scopes),
		claims:        types.NewStringInterfaceMap(adapter, claimsOf(facts.Claims)),
		groupsUnknown: len(facts.Groups) == 0 && hasOverage(facts.Claims),
	}
	c.opaque = opaque{kind: types.NewObjectType(callerName), self: c}
	return c
}

// claimsOf are claims with numbers of the types that CEL has.
func claimsOf(claims map[string]any) map[string]any {
	if claims == nil {
		return map[string]any{}
	}
	plain, _ := plainNumbers(claims).(map[string]any)
	return plain
}

// plainNumbers replaces the numbers of package json, and keeps everything else.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = plainNumbers(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = plainNumbers(item)
		}
		return out
	}
	return v
}

// hasOverage holds for tokens of callers with more groups than fit into a token
// (OpenID Connect Core, section 5.6.2: distributed claims).
func hasOverage(claims map[string]any) bool {
	names, _ := claims["_claim_names"].(map[string]any)
	_, isElsewhere := names["groups"]
	return isElsewhere
}

var errGroupsUnknown = errors.New("the token does not have the caller's groups")

// callerObject is the type of the variable caller.
func callerObject() *object {
	text := func(get func(c *caller) ref.Val) *types.FieldType {
		return getter(types.StringType, func(c *caller) (ref.Val, error) { return get(c), nil })
	}
	texts := types.NewListType(types.StringType)
	return &object{fields: map[string]*types.FieldType{
		"name":      text(func(c *caller) ref.Val { return c.name }),
		"issuer":    text(func(c *caller) ref.Val { return c.issuer }),
		"subject":   text(func(c *caller) ref.Val { return c.subject }),
		"client_id": text(func(c *caller) ref.Val { return c.clientID }),
		"source":    text(func(c *caller) ref.Val { return c.source }),
		"groups": getter(texts, func(c *caller) (ref.Val, error) {
			if c.groupsUnknown {
				return nil, errGroupsUnknown
			}
			return c.groups, nil
		}),
		"scopes": getter(texts, func(c *caller) (ref.Val, error) { return c.scopes, nil }),
		"claims": getter(types.NewMapType(types.StringType, types.DynType), func(c *caller) (ref.Val, error) { return c.claims, nil }),
	}}
}
