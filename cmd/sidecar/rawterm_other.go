// SPDX-License-Identifier: Apache-2.0

//go:build !windows && !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

import (
	"errors"
	"os"
)

// makeRaw, terminalSize and notifyResize are for systems whose terminals are no files with settings.

func makeRaw(_, _ *os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

func terminalSize(*os.File) (columns, lines int) { return 0, 0 }

func notifyResize(chan<- os.Signal) (stop func()) { return func() {} }
