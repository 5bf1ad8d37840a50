// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// keepsRules and keptRules are the state of [KeepRules].
var (
	keepsRules atomic.Bool
	keptRules  = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })
)

// KeepRules keeps the compiled rules from now on, so that later configurations of the process are checked faster, for
// about a megabyte of memory. It is for tests, which read hundreds of configurations. It is safe for concurrent use.
func KeepRules() { keepsRules.Store(true) }

// newValidator returns the validator of one configuration. A process rarely reads a second one, and the compiled rules
// take more memory than the configuration.
func newValidator() (protovalidate.Validator, error) {
	if keepsRules.Load() {
		return keptRules()
	}
	return protovalidate.New()
}

// checkRules evaluates the rules of the message, and maps what they say to
// where the values came from. The error is one of the rules themselves.
func (d *draft) checkRules() error {
	validator, err := newValidator()
	if err != nil {
		return fmt.Errorf("check configuration: %w", err)
	}
	err = validator.Validate(d.root)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("check configuration: %w", err)
	}
	for _, v := range invalid.Violations {
		path := protovalidate.FieldPathString(v.Proto.GetField())
		if isAboutMessage(v, path) && d.isPartFaulty(path) {
			continue
		}
		path = subject(v.Proto.GetRuleId(), path)
		d.judge(path, d.wording(v, path))
	}
	return nil
}

// isAboutMessage reports whether a rule compares several fields of the message
// at the path.
func isAboutMessage(v *protovalidate.Violation, path string) bool {
	if path == "" || !v.FieldValue.IsValid() {
		return path == ""
	}
	m, ok := v.FieldValue.Interface().(protoreflect.Message)
	return ok && m.Descriptor().FullName() != durationName
}

// isPartFaulty reports whether something within the path is known to be wrong.
func (d *draft) isPartFaulty(path string) bool {
	for p := range d.faulty {
		if path == "" || isWithin(p, path) {
			return true
		}
	}
	return false
}

// subject is the field that a rule about the whole message is best shown at.
func subject(rule, path string) string {
	switch rule {
	case "config.demo.backend":
		return "backend.url"
	case "config.tools.unique":
		return "tools"
	default:
		return path
	}
}

// wording puts a violation in the words of this package, with the value where
// it helps.
func (d *draft) wording(v *protovalidate.Violation, path string) string {
	rule := v.Proto.GetRuleId()
	message := v.Proto.GetMessage()
	switch {
	case isEmpty(v) && !d.given(path):
		return "must be set" + byFlag(path)
	case strings.HasSuffix(rule, ".in"):
		message = "must be one of " + words(v.RuleValue, message)
	case strings.HasSuffix(rule, ".not_in"):
		message = "must not be one of " + words(v.RuleValue, message)
	default:
		message = strings.NewReplacer(
			"greater than or equal to", "at least", "less than or equal to", "at most", "greater than", "above", "less than", "below",
		).Replace(message)
	}
	if shown := shownValue(v, path); shown != "" && !d.secret && !isSecret(path) {
		message += ", is " + shown
	}
	switch path {
	case "backend.url":
		message += meantURL(v)
	case "state.url":
		message += stateURL
	}
	return message
}

// stateURL says what the pattern of state.url means.
const stateURL = ": want nats:// or tls:// URLs separated by commas, such as nats://nats:4222, without credentials " +
	"(state.credentials_file, state.nkey_file, state.password_file or state.token_file)"

// meantURL suggests the URL that host:port without a scheme was probably meant
// to be. A value with an @ may hold a password and is not repeated.
func meantURL(v *protovalidate.Violation) string {
	value, ok := v.FieldValue.Interface().(string)
	if !ok || strings.Contains(value, "@") || strings.Contains(value, "://") {
		return ""
	}
	if strings.HasPrefix(value, "/") {
		return "; did you mean unix://" + value + "?"
	}
	if !hostPort.MatchString(value) {
		return ""
	}
	return "; did you mean http://" + value + "?"
}

// hostPort is what a person types who leaves the scheme out: a host or a
// bracketed IPv6 address, and perhaps a port.
var hostPort = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)?(:[0-9]{1,5})?/?$`)

// byFlag names the flag that sets a field; empty where none does.
func byFlag(path string) string {
	for _, b := range bindings() {
		if b.path == path {
			return "; set it with --" + b.flag + " " + b.value
		}
	}
	return ""
}

func isEmpty(v *protovalidate.Violation) bool {
	text, ok := v.FieldValue.Interface().(string)
	return ok && text == ""
}

// words renders the list of an in rule.
func words(v protoreflect.Value, otherwise string) string {
	list, ok := v.Interface().(protoreflect.List)
	if !ok {
		return otherwise
	}
	items := make([]string, list.Len())
	for i := range items {
		items[i] = list.Get(i).String()
	}
	return strings.Join(items, ", ")
}

// shownValue renders the value that broke a rule. A URL may hold a password and
// is not shown.
func shownValue(v *protovalidate.Violation, path string) string {
	if !v.FieldValue.IsValid() || path == "backend.url" || path == "state.url" {
		return ""
	}
	switch value := v.FieldValue.Interface().(type) {
	case string:
		return quote(value)
	case int32, int64, float64:
		return v.FieldValue.String()
	case protoreflect.Message:
		if d, ok := value.Interface().(*durationpb.Duration); ok {
			return durationText(d)
		}
	}
	return ""
}
