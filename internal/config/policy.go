// SPDX-License-Identifier: Apache-2.0

package config

import (
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// LoadPolicy reads a policy file, validates it against the rules of its message, and
// passes it to check, which reports further faults by their paths ("rules[2].when").
//
// The error is an *Error with all faults, each with its place in the file.
func LoadPolicy(path string, check func(p *configv1.Policy, report func(path, message string))) (*configv1.Policy, error) {
	policy := &configv1.Policy{}
	return policy, loadFile("policy file", path, policy, func(report func(path, message string)) { check(policy, report) })
}

// LoadPolicyTests reads a file of cases for `sidecar policy test` in the same way.
func LoadPolicyTests(path string, check func(p *configv1.PolicyTests, report func(path, message string))) (*configv1.PolicyTests, error) {
	tests := &configv1.PolicyTests{}
	return tests, loadFile("test file", path, tests, func(report func(path, message string)) { check(tests, report) })
}

// loadFile reads a file of some kind into a message.
func loadFile(kind, path string, into proto.Message, check func(report func(path, message string))) error {
	d := newDraftOf(into)
	d.kind = kind
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(); err != nil {
			return err
		}
		check(d.judge)
	}
	if len(d.faults) > 0 {
		return errorFromFaults(d.faults)
	}
	return nil
}
