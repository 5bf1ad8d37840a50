// SPDX-License-Identifier: Apache-2.0

package schema

// SetWork changes the work that one check may take.
func (v *Validator) SetWork(steps int) { v.work = steps }

const FormatIP = formatIP

var (
	ErrNoDescriptor             = errNoDescriptor
	IsOneofRequiredByAnnotation = isOneofRequiredByAnnotation
	ResourcePatterns            = resourcePatterns
)

var AnnotationsOfEnum = annotationsOfEnum

type EnumAnnotations = enumAnnotations
