// SPDX-License-Identifier: Apache-2.0

package content

import "github.com/outrigger-mcp/outrigger/internal/schema"

// What the tests outside the package look at.

const (
	FieldsKey  = fieldsKey
	MaxCuts    = maxCuts
	MaxDepth   = maxMaskDepth
	MaxNames   = maxNames
	MaxPaths   = maxPaths
	ReducedKey = reducedKey
)

var (
	JoinPath     = joinPath
	NewMaskUnder = newMask
)

func NewMask(text string, of schema.View) (*Mask, []string) { return newMask(text, of, "") }
