// SPDX-License-Identifier: Apache-2.0

package content

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// What the tests outside the package look at.

const (
	BlockAudio    = blockAudio
	BlockImage    = blockImage
	BlockResource = blockResource
	BlockText     = blockText

	FieldsKey  = fieldsKey
	MaxCuts    = maxCuts
	MaxDepth   = maxMaskDepth
	MaxNames   = maxNames
	MaxPaths   = maxPaths
	ReducedKey = reducedKey
)

var (
	JoinPath         = joinPath
	NewMaskUnder     = newMask
	ReductionExample = reductionExample
	SetMeta          = setMeta
	Shares           = shares
	TextBlock        = textBlock
)

func NewMask(text string, of schema.View) (*Mask, []string) { return newMask(text, of, "") }

type ReductionKind = reductionKind

func (r *Reduction) CutText(text *outriggerv1.TextContent, most int) { r.cutText(text, most) }
