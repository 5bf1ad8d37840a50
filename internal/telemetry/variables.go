// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// prefix begins the variables of OpenTelemetry.
const prefix = "OTEL_"

// variables are those of OpenTelemetry that are set. An empty one counts as unset.
func variables(environ []string) map[string]string {
	vars := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); strings.HasPrefix(name, prefix) && value != "" {
			vars[name] = value
		}
	}
	return vars
}

// ofSignal is the variable of the OTLP exporter for one signal, such as OTEL_EXPORTER_OTLP_TRACES_TIMEOUT.
func ofSignal(signal Signal, what string) string {
	return "OTEL_EXPORTER_OTLP_" + strings.ToUpper(signal.String()) + "_" + what
}

func endpointVariable(signal Signal) string { return ofSignal(signal, "ENDPOINT") }

// either returns the variable of the signal where it is set, else the general one.
func (r *reader) either(signal Signal, what string) (name, value string) {
	if own := ofSignal(signal, what); r.vars[own] != "" {
		return own, r.vars[own]
	}
	name = "OTEL_EXPORTER_OTLP_" + what
	return name, r.vars[name]
}

// flag reads a variable that is true or false.
func (r *reader) flag(name string) bool {
	switch strings.ToLower(r.vars[name]) {
	case "true":
		return true
	case "", "false":
	default:
		r.report(name, fmt.Sprintf("must be true or false, is %q", r.vars[name]))
	}
	return false
}

// number reads a variable that is a whole number within bounds.
func (r *reader) number(name string, otherwise, least, most int) int {
	text := r.vars[name]
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		r.report(name, fmt.Sprintf("must be a whole number from %d to %d, is %q", least, most, text))
		return otherwise
	}
	return value
}

// millis reads a variable that is a time in milliseconds.
func (r *reader) millis(name string, otherwise time.Duration) time.Duration {
	text := r.vars[name]
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 || value > maxMillis {
		r.report(name, fmt.Sprintf("must be a number of milliseconds from 1 to %d, without a unit, is %q", maxMillis, text))
		return otherwise
	}
	return time.Duration(value) * time.Millisecond
}
