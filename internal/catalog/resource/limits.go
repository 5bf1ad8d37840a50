// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"sync"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fieldrules"
)

// bounds are those of resources in the contract, read from its rules: the longest URI and template, the longest name and media
// type, and the most resources of one response.
type bounds struct{ uri, name, mime, listed int }

var limits = sync.OnceValue(func() bounds {
	var one outriggerv1.Resource
	return bounds{
		uri: fieldrules.Of(&one, "uri").MaxBytes, name: fieldrules.Of(&one, "name").MaxBytes, mime: fieldrules.Of(&one, "mime_type").MaxBytes,
		listed: fieldrules.Of(new(outriggerv1.ListResourcesResponse), "resources").MaxItems,
	}
})
