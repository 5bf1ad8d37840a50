// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// Requests of ioctl about the mode of a terminal.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)
