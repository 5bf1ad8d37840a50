// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// maxPlainVersionNumbers is how many numbers a plain version has.
const maxPlainVersionNumbers = 3

// arePlain reports whether options certainly keep the rules of options.proto: they say no more than most do, and each of
// it plainly. False says nothing: the rules have to be asked, which takes fifty times as long. A property test holds it
// to that.
func arePlain(o *configv1.ToolOptions) bool {
	if len(o.ProtoReflect().GetUnknown()) > 0 || o.GetDescription() != "" || o.TaskAfter != nil || o.StreamTime != nil || o.ResultBudget != nil || len(o.GetTags()) > 0 ||
		len(o.GetIcons()) > 0 || len(o.GetErrors()) > 0 || len(o.GetScopes()) > 0 || o.GetStreamHeader() != "" || o.GetReadOnly() && o.GetDestructive() {
		return false
	}
	switch o.GetTaskSupport() {
	case "", "forbidden", "optional", "required":
	default:
		return false
	}
	rules := contract().options
	return (o.GetName() == "" || len(o.GetName()) <= rules("name").MaxBytes && IsCanonicalName(o.GetName())) &&
		(o.GetVersion() == "" || isPlainVersion(o.GetVersion(), rules("version").MaxBytes)) &&
		isShort(o.GetTitle(), rules("title").MaxBytes) && isShort(o.GetModule(), rules("module").MaxBytes) &&
		isShort(o.GetDeprecatedIn(), rules("deprecated_in").MaxBytes) &&
		(o.Timeout == nil || isWithin(o.Timeout, rules("timeout").MaxSeconds) && (o.Timeout.Seconds > 0 || o.Timeout.Nanos > 0)) &&
		(o.CacheTtl == nil || isWithin(o.CacheTtl, rules("cache_ttl").MaxSeconds)) &&
		len(o.GetExamples()) <= rules("examples").MaxItems && !slices.ContainsFunc(o.GetExamples(), isNoPlainExample)
}

func isNoPlainExample(e *outriggerv1.ToolExample) bool {
	rules := contract().examples
	return len(e.ProtoReflect().GetUnknown()) > 0 || e.GetStatus() != "" || len(e.GetArgumentsJson()) < rules("arguments_json").MinBytes ||
		!isShort(e.GetName(), rules("name").MaxBytes) || !isShort(e.GetDescription(), rules("description").MaxBytes) ||
		!isShort(e.GetArgumentsJson(), rules("arguments_json").MaxBytes) || !isShort(e.GetDataJson(), rules("data_json").MaxBytes)
}

// isShort holds for texts that Protobuf can hold and that are no longer than the limit.
func isShort(text string, maxBytes int) bool { return len(text) <= maxBytes && utf8.ValidString(text) }

// isWithin holds for durations from zero to less than the limit.
func isWithin(d *durationpb.Duration, maxSeconds int64) bool {
	return len(d.ProtoReflect().GetUnknown()) == 0 && d.Seconds >= 0 && d.Seconds < maxSeconds && d.Nanos >= 0 && d.Nanos < 1e9
}

// isPlainVersion holds for a semantic version of nothing but its three numbers.
func isPlainVersion(version string, maxBytes int) bool {
	numbers := 0
	for number := range strings.SplitSeq(version, ".") {
		numbers++
		if number == "" || len(number) > 1 && number[0] == '0' || strings.Trim(number, "0123456789") != "" {
			return false
		}
	}
	return numbers == maxPlainVersionNumbers && len(version) <= maxBytes
}
