// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// makeRaw has a terminal pass on every key at once, unseen. restore undoes it.
func makeRaw(f, _ *os.File) (restore func(), err error) {
	var before *unix.Termios
	err = onTerminal(f, func(fd int) (err error) {
		if before, err = unix.IoctlGetTermios(fd, getTermios); err != nil {
			return err
		}
		raw := *before
		raw.Iflag &^= unix.BRKINT | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, setTermios, &raw)
	})
	if err != nil {
		return nil, fmt.Errorf("set the terminal's mode: %w", err)
	}
	return func() {
		_ = onTerminal(f, func(fd int) error { return unix.IoctlSetTermios(fd, setTermios, before) }) // it may be gone
	}, nil
}

// terminalSize returns the columns and lines of a terminal; zeros where it does not say.
func terminalSize(f *os.File) (columns, lines int) {
	_ = onTerminal(f, func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			columns, lines = int(size.Col), int(size.Row)
		}
		return err
	})
	return columns, lines
}

// notifyResize sends to a channel when the terminal of the process has another size, until stop.
func notifyResize(c chan<- os.Signal) (stop func()) {
	signal.Notify(c, syscall.SIGWINCH)
	return func() { signal.Stop(c) }
}

// onTerminal runs fn on the descriptor of a file, which Fd would make blocking.
func onTerminal(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return err
	}
	return inner
}
