// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/console"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

// terminal talks to a person who started the sidecar by hand: where to call it,
// one next step, and one line at the end. It is in for the log lines of
// milestones, which are for machines.
type terminal struct {
	out    io.Writer
	colour bool
	isDemo bool
}

// newTerminal returns nil unless a person reads standard error and wants no more
// and no less than the log's default.
func newTerminal(cfg *configv1.Config, level zapcore.Level, env environment) *terminal {
	if cfg.GetLog().GetFormat() == "json" || level != zapcore.InfoLevel || !isTerminal(env.stderr) {
		return nil
	}
	return &terminal{out: env.stderr, colour: env.hasColour(env.stderr), isDemo: cfg.GetDemo()}
}

// hasColour follows NO_COLOR (no-color.org) and TERM=dumb.
func (env environment) hasColour(w io.Writer) bool {
	return isTerminal(w) && env.value("NO_COLOR", "") == "" && env.value("TERM", "") != "dumb"
}

// isTerminal reports whether a person reads what goes to stream, or types what comes from it. The null device is a character device
// too.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Ready implements [server.Narrator]. It prints the addresses to paste, how many tools there are, and what to do
// next.
func (t *terminal) Ready(sockets []*peer.Socket, tools int) {
	of := "the example service"
	if !t.isDemo {
		of = "the tool service"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s of %s\n\n", t.bold("Outrigger is ready"), count(tools, "tool"), of)
	var mcp string
	for _, one := range sockets {
		scheme := "http"
		if one.HasTLS() {
			scheme = "https"
		}
		url := scheme + "://" + reachable(one.Addr())
		if one.Addr().Network() == "unix" {
			fmt.Fprintf(&b, "  %-20s unix://%s\n", map[bool]string{true: "Callers", false: "Admin"}[one.Name() == front.Main], one.Addr())
			continue
		}
		switch one.Name() {
		case front.Main:
			mcp = url + "/mcp"
			fmt.Fprintf(&b, "  MCP                  %s\n", t.bold(mcp))
			fmt.Fprintf(&b, "  JSON-RPC             %s/rpc\n", url)
			fmt.Fprintf(&b, "  Connect, gRPC        %s\n", url)
		case front.Admin:
			fmt.Fprintf(&b, "  Console              %s\n", t.bold(url+console.Path))
			fmt.Fprintf(&b, "  Admin                %s/readyz?verbose\n", url)
		default:
			fmt.Fprintf(&b, "  Health and metrics   %s/readyz\n", url)
		}
	}
	if mcp != "" {
		fmt.Fprintf(&b, "\nNext: connect an agent, such as `claude mcp add --transport http outrigger %s`. Ctrl-C stops.\n\n", mcp)
	}
	t.print(b.String())
}

// Draining implements [server.Narrator]. It says what a person waits for who has pressed Ctrl-C; nothing where
// nothing is in flight.
func (t *terminal) Draining(inFlight int, grace time.Duration) {
	if inFlight == 0 {
		return
	}
	t.print(fmt.Sprintf("Draining: waiting up to %v for %s. Ctrl-C again stops at once.\n", grace, count(inFlight, "call")))
}

// Stopped implements [server.Narrator].
func (t *terminal) Stopped(outcome string) {
	t.print("Stopped: " + outcome + ".\n")
}

// Backend implements [server.Narrator].
func (t *terminal) Backend(text string) { t.print("\n" + text) }

// print writes in one piece, so that no log line comes between. A terminal that is
// gone is no reason to fail.
func (t *terminal) print(text string) { _, _ = io.WriteString(t.out, text) }

func (t *terminal) bold(text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// reachable is a listener's address as a person on this machine pastes it.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}
