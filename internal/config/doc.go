// SPDX-License-Identifier: Apache-2.0

// Package config makes one validated configuration out of defaults, a YAML file,
// the environment and flags, before anything else starts.
//
// The configuration is the message outrigger.config.v1.Config. A command calls
// RegisterFlags while it is built, and Load when it runs:
//
//	config.RegisterFlags(cmd.Flags(), config.Serve)
//	...
//	cfg, err := config.Load(config.Serve, cmd.Flags(), environ, config.Options{})
//
// Flags override the environment, the environment overrides the file, and the file
// overrides the defaults. A list from a stronger source replaces the weaker one's.
//
// Load refuses unknown and repeated keys, wrong types, values out of range,
// YAML aliases, files above MaxFileBytes, and combinations that cannot work or
// would not be safe. It does not stop at the first fault. An *Error holds every
// fault with its path and its source: the line in the file, the variable or the flag.
//
// The caller owns what Load returns. Nothing is shared, so everything is safe for
// concurrent use.
package config
