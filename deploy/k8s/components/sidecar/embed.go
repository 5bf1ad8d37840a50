// SPDX-License-Identifier: Apache-2.0

// Package sidecar holds the patch that puts the sidecar into a pod, for programs
// that do without Kustomize.
package sidecar

import _ "embed"

//go:embed sidecar.yaml
var patch string

// Patch returns the patch as YAML: a Deployment whose pod template has what the
// sidecar adds.
func Patch() []byte { return []byte(patch) }
