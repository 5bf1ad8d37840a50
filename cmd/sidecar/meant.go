// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses arguments, and says which flag a URL or an address was
// probably meant for.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("backend") != nil && isAddress(args[0]) {
		url := args[0]
		if !strings.Contains(url, "://") {
			url = "http://" + url
		}
		return fmt.Errorf("unexpected argument %q; did you mean --backend %s?", args[0], url)
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}

// between wants a number of arguments. Its error names them as the command's usage line does.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		_, names, _ := strings.Cut(strings.TrimSuffix(cmd.Use, " [flags]"), " ")
		if len(args) < least {
			return fmt.Errorf("missing argument: want %s, found %d", names, len(args))
		}
		return fmt.Errorf("unexpected argument %q: want %s", args[most], names)
	}
}

// isAddress reports whether an argument looks like a URL or host:port.
func isAddress(arg string) bool {
	if scheme, rest, ok := strings.Cut(arg, "://"); ok {
		return scheme != "" && rest != "" && !strings.Contains(rest, "@") // a password is not repeated
	}
	host, port, ok := strings.Cut(arg, ":")
	return ok && host != "" && port != "" && strings.Trim(port, "0123456789") == ""
}

// callUsage checks the arguments of `call`, and writes the JSON that name=value
// pairs were probably meant to be.
func callUsage(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which tool? Name one, such as `sidecar call lab.echo '{\"nonce\": \"hello\"}'`; `sidecar tools` lists them")
	}
	if meant := meantObject(args[1:]); meant != "" {
		return fmt.Errorf("arguments are one JSON object; did you mean '%s'?", meant)
	}
	if len(args) > 2 {
		return fmt.Errorf("want NAME and one JSON object, found %d arguments; put the object in single quotes", len(args))
	}
	return nil
}

// meantObject is the object for arguments of the form name=value; empty where
// one of them has another form.
func meantObject(pairs []string) string {
	var b strings.Builder
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || name == "" {
			return ""
		}
		if i > 0 {
			b.WriteString(", ")
		}
		shown := []byte(value)
		if !json.Valid(shown) {
			var err error
			if shown, err = json.Marshal(value); err != nil {
				return ""
			}
		}
		fmt.Fprintf(&b, "%q: %s", name, shown)
	}
	if b.Len() == 0 {
		return ""
	}
	return "{" + b.String() + "}"
}

// unknownCommand is the error for a first argument that names no command. Cobra
// would show the root's help for one that is followed by --help, and exit with 0.
func unknownCommand(root *cobra.Command, args []string) error {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") || arg == "help" {
			continue
		}
		if arg == cobra.ShellCompRequestCmd || arg == cobra.ShellCompNoDescRequestCmd {
			return nil
		}
		for _, cmd := range root.Commands() {
			if cmd.Name() == arg || cmd.HasAlias(arg) {
				return nil
			}
		}
		return refuseUnknownCommand(root, []string{arg})
	}
	return nil
}

// refuseUnknownCommand names the command that was probably meant.
func refuseUnknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		return usageError(fmt.Sprintf("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or ")))
	}
	return usageError(fmt.Sprintf("unknown command %q; `%s --help` lists them", args[0], root.CommandPath()))
}

// asUsageError gives what a command says about its arguments the exit code for
// wrong usage.
func asUsageError(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usageError(fmt.Sprintf("%v; see `%s --help`", err, cmd.CommandPath()))
		}
		return nil
	}
}
