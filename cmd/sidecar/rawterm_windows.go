// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// makeRaw has a console pass on every key at once, unseen, as the sequences that other terminals send, and obey sequences in what is
// written to it. Consoles before Windows 10 cannot, which is an error. restore undoes both.
func makeRaw(in, out *os.File) (restore func(), err error) {
	keys, err := changeMode(in, windows.ENABLE_VIRTUAL_TERMINAL_INPUT,
		windows.ENABLE_ECHO_INPUT|windows.ENABLE_LINE_INPUT|windows.ENABLE_PROCESSED_INPUT)
	if err != nil {
		return nil, err
	}
	screen, err := changeMode(out, windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING, 0)
	if err != nil {
		keys()
		return nil, err
	}
	return func() {
		screen()
		keys()
	}, nil
}

// changeMode sets and clears bits of the mode of a console.
func changeMode(f *os.File, set, clear uint32) (restore func(), err error) {
	var before uint32
	err = onConsole(f, func(h windows.Handle) error {
		if err := windows.GetConsoleMode(h, &before); err != nil {
			return err
		}
		return windows.SetConsoleMode(h, before&^clear|set)
	})
	if err != nil {
		return nil, fmt.Errorf("set the console's mode: %w", err)
	}
	return func() {
		_ = onConsole(f, func(h windows.Handle) error { return windows.SetConsoleMode(h, before) }) // it may be gone
	}, nil
}

// terminalSize returns the columns and lines of the window of a console; zeros where it does not say.
func terminalSize(f *os.File) (columns, lines int) {
	_ = onConsole(f, func(h windows.Handle) error {
		var info windows.ConsoleScreenBufferInfo
		err := windows.GetConsoleScreenBufferInfo(h, &info)
		if err == nil {
			columns, lines = int(info.Window.Right-info.Window.Left)+1, int(info.Window.Bottom-info.Window.Top)+1
		}
		return err
	})
	return columns, lines
}

// notifyResize does nothing: a console tells of its size among the keys. The next drawing has it.
func notifyResize(chan<- os.Signal) (stop func()) { return func() {} }

// onConsole runs fn on the handle of a file.
func onConsole(f *os.File, fn func(h windows.Handle) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(windows.Handle(fd)) }); err != nil {
		return err
	}
	return inner
}
