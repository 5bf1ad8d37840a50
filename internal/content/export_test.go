// SPDX-License-Identifier: Apache-2.0

package content

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
	NewMask      = newMask
	NewMaskUnder = newMaskUnder
)
