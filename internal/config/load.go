// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"path/filepath"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/spf13/pflag"
)

// Config is a validated configuration. Every field that has a default is set, so
// that readers need no defaults.
type Config struct {
	*configv1.Config
	// File is the path of the configuration file; empty if there was none.
	File string
	// Warnings are for the log: settings without effect, and variables that are
	// probably misspelled.
	Warnings []Fault
}

// Options change how Load works. The zero value is valid.
type Options struct {
	// MaxFileBytes bounds the file. Default: MaxFileBytes of this package.
	MaxFileBytes int64
	// Checks run at the end, for rules that other packages know.
	Checks []Check
}

// Check checks a configuration against rules of another package. For each fault it
// calls report with the field's path ("backend.metadata.inbound[2]") and a message.
// report adds the source of the value. A path in capitals is the name of an environment
// variable of others ("OTEL_TRACES_SAMPLER").
type Check func(cfg *configv1.Config, report func(path, message string))

// Load makes the configuration of one command from its flags (registered by
// RegisterFlags, and parsed), the environment (in the form of os.Environ) and the
// file that either of them names.
//
// The error is an *Error with all faults, unless the rules of the message itself
// cannot be evaluated.
func Load(kind Kind, flags *pflag.FlagSet, environ []string, o Options) (*Config, error) {
	d := newDraft(Defaults(kind))
	vars := variables(environ)

	file, at := fileName(flags, vars)
	if file != "" {
		d.readFile(file, at, cmp.Or(o.MaxFileBytes, MaxFileBytes))
	}
	d.readEnvironment(vars)
	d.readFlags(flags)

	if err := d.checkRules(); err != nil {
		return nil, err
	}
	d.checkSense(kind)
	if d.checkFiles() {
		for _, check := range o.Checks {
			check(d.config, d.judge)
		}
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return &Config{Config: d.config, File: file, Warnings: d.warnings}, nil
}

// Verify validates a configuration that a program has built, as Load validates one that
// it read. The error is an *Error, as for Load.
func Verify(kind Kind, cfg *configv1.Config, o Options) error {
	d := newDraft(cfg)
	if err := d.checkRules(); err != nil {
		return err
	}
	d.checkSense(kind)
	if d.checkFiles() {
		for _, check := range o.Checks {
			check(d.config, d.judge)
		}
	}
	if len(d.faults) > 0 {
		return errorFromFaults(d.faults)
	}
	return nil
}

// fileName finds the configuration file, and who named it.
func fileName(flags *pflag.FlagSet, vars map[string]string) (string, origin) {
	if texts := flagTexts(flags, configFlag); texts != nil {
		return texts[len(texts)-1], origin{source: "--" + configFlag}
	}
	name := envName(configFlag)
	return vars[name], origin{source: name}
}

// ResolveRecords replaces StateRecords with a path, from the environment in the form of
// os.Environ: below XDG_STATE_HOME, or below ~/.local/state where that is unset or relative
// (XDG Base Directory Specification 0.8). Without either, records are off, with a warning.
func (c *Config) ResolveRecords(environ []string) {
	if c.GetRecord().GetDir() != StateRecords {
		return
	}
	var state, home string
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); {
		case !filepath.IsAbs(value):
		case name == "XDG_STATE_HOME":
			state = value
		case name == "HOME":
			home = filepath.Join(value, ".local", "state")
		}
	}
	if state = cmp.Or(state, home); state != "" {
		c.Record.Dir = new(filepath.Join(state, "outrigger", "runs"))
		return
	}
	c.Record.Dir = new("off")
	c.Warnings = append(c.Warnings, Fault{
		Path: "record.dir", Message: "run records are off, because neither XDG_STATE_HOME nor HOME names a directory; set --record-dir to a directory, or to off",
	})
}
