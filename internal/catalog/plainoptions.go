// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// The limits of options.proto that arePlain knows.
const (
	maxOptionNameBytes, maxOptionVersionBytes        = 128, 128
	maxOptionTitleBytes, maxOptionModuleBytes        = 1024, 512
	maxOptionDeprecatedBytes                         = 128
	maxOptionTimeoutSeconds, maxOptionCacheTTLSecond = 86_400, 31_536_000
	maxOptionExamples, maxExampleNameBytes           = 64, 256
	maxExampleTextBytes, maxExampleJSONBytes         = 16_384, 262_144
	minExampleArgumentsBytes, maxPlainVersionNumbers = 2, 3
)

// arePlain reports whether options certainly keep the rules of options.proto: they say no more than most do, and each of
// it plainly. False says nothing: the rules have to be asked, which takes fifty times as long. A property test holds it
// to that.
func arePlain(o *outriggerv1.ToolOptions) bool {
	if len(o.ProtoReflect().GetUnknown()) > 0 || o.GetDescription() != "" || o.TaskAfter != nil || o.StreamTime != nil || len(o.GetTags()) > 0 ||
		len(o.GetIcons()) > 0 || len(o.GetErrors()) > 0 || o.GetReadOnly() && o.GetDestructive() {
		return false
	}
	switch o.GetTaskSupport() {
	case "", "forbidden", "optional", "required":
	default:
		return false
	}
	return (o.GetName() == "" || len(o.GetName()) <= maxOptionNameBytes && IsCanonicalName(o.GetName())) &&
		(o.GetVersion() == "" || isPlainVersion(o.GetVersion())) &&
		isShort(o.GetTitle(), maxOptionTitleBytes) && isShort(o.GetModule(), maxOptionModuleBytes) &&
		isShort(o.GetDeprecatedIn(), maxOptionDeprecatedBytes) &&
		(o.Timeout == nil || isWithin(o.Timeout, maxOptionTimeoutSeconds) && (o.Timeout.Seconds > 0 || o.Timeout.Nanos > 0)) &&
		(o.CacheTtl == nil || isWithin(o.CacheTtl, maxOptionCacheTTLSecond)) &&
		arePlainExamples(o.GetExamples())
}

func arePlainExamples(examples []*outriggerv1.ToolExample) bool {
	for _, e := range examples {
		if len(e.ProtoReflect().GetUnknown()) > 0 || !isShort(e.GetName(), maxExampleNameBytes) ||
			!isShort(e.GetDescription(), maxExampleTextBytes) || e.GetStatus() != "" || len(e.GetArgumentsJson()) < minExampleArgumentsBytes ||
			!isShort(e.GetArgumentsJson(), maxExampleJSONBytes) || !isShort(e.GetDataJson(), maxExampleJSONBytes) {
			return false
		}
	}
	return len(examples) <= maxOptionExamples
}

// isShort holds for texts that Protobuf can hold and that are no longer than the limit.
func isShort(text string, maxBytes int) bool { return len(text) <= maxBytes && utf8.ValidString(text) }

// isWithin holds for durations from zero to less than the limit.
func isWithin(d *durationpb.Duration, maxSeconds int64) bool {
	return len(d.ProtoReflect().GetUnknown()) == 0 && d.Seconds >= 0 && d.Seconds < maxSeconds && d.Nanos >= 0 && d.Nanos < 1e9
}

// isPlainVersion holds for a semantic version of nothing but its three numbers.
func isPlainVersion(version string) bool {
	numbers := 0
	for number := range strings.SplitSeq(version, ".") {
		numbers++
		if number == "" || len(number) > 1 && number[0] == '0' || strings.Trim(number, "0123456789") != "" {
			return false
		}
	}
	return numbers == maxPlainVersionNumbers && len(version) <= maxOptionVersionBytes
}
