// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// classOfCalls is what classes of tools and of callers have in common.
type classOfCalls interface {
	GetName() string
	GetReservedCalls() int32
}

// checkClasses finds classes with one name, and reserved slots that leave none for other calls.
func (d *draft) checkClasses(l *configv1.Limits) {
	d.checkCallersOf(l.GetCallerClasses())
	reserved := checkNames(d, "limits.tool_classes", l.GetToolClasses()) + checkNames(d, "limits.caller_classes", l.GetCallerClasses())
	if most := int64(l.GetMaxConcurrentCalls()); reserved > 0 && reserved >= most {
		path := "limits.tool_classes"
		if len(l.GetToolClasses()) == 0 {
			path = "limits.caller_classes"
		}
		d.judge(path, "the classes reserve "+strconv.FormatInt(reserved, 10)+" calls in total, and max_concurrent_calls (--max-calls) is "+
			strconv.FormatInt(most, 10)+"; reserve fewer, so that other calls can run")
	}
}

// checkCallersOf finds names without their source, which no caller has.
func (d *draft) checkCallersOf(classes []*configv1.CallerClass) {
	for i, c := range classes {
		for n, pattern := range c.GetCallers() {
			if pattern != "stdio" && !strings.ContainsAny(pattern, ":.*") {
				d.judge("limits.caller_classes["+strconv.Itoa(i)+"].callers["+strconv.Itoa(n)+"]", "is not a caller: write \"caller:"+pattern+
					"\" for an entry of the callers file")
			}
		}
	}
}

// checkNames compares the names of classes, and returns the sum of their reserved slots.
func checkNames[C classOfCalls](d *draft, path string, classes []C) (reserved int64) {
	taken := map[string]string{}
	for i, c := range classes {
		at := path + "[" + strconv.Itoa(i) + "]"
		if first, ok := taken[c.GetName()]; ok {
			d.judge(at+".name", "is the name of "+first+" too; use a different one for each class")
		}
		taken[c.GetName()] = at
		reserved += int64(c.GetReservedCalls())
	}
	return reserved
}
