// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// binary is the sidecar as its own process.
type binary struct {
	main, admin string
	cmd         *exec.Cmd
	// log is what it logged before it was ready.
	log string
}

// startBinary starts the sidecar on free ports and waits until it is ready; it ends
// with the test.
func startBinary(t *testing.T, args ...string) *binary {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	cmd := exec.CommandContext(ctx, exe, append(args, "--admin", "127.0.0.1:0", "--log-format", "json")...)
	cmd.Args[0] = "sidecar" // by which the test binary knows what to be
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	p := &binary{cmd: cmd}
	var said bytes.Buffer
	for lines := bufio.NewScanner(io.TeeReader(stderr, &said)); lines.Scan(); {
		var l logLine
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err != nil:
		case l.Message == "listening" && l.Listener == "main":
			p.main = l.Addr
		case l.Message == "listening":
			p.admin = l.Addr
		case l.Message == "ready":
			p.log = said.String()
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return p
		}
	}
	t.Fatalf("it ended before it was ready: %s", said.String())
	return nil
}
