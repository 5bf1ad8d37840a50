// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	minTopInterval, maxTopInterval = 250 * time.Millisecond, time.Minute
	// topAnswer is how long the sidecar may take to say what it is, and to be late with a message.
	topAnswer = 5 * time.Second
	// Between attempts to reach a sidecar that is away.
	minTopPause, maxTopPause = 500 * time.Millisecond, 8 * time.Second
	// topColumns is the width of a snapshot.
	topColumns = 120
)

func newTopCommand(env environment) *cobra.Command {
	var at adminFlags
	var once, asJSON bool
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the calls, tools, limits and checks of a running sidecar",
		Long: `Top shows what a running sidecar does, as its admin listener reports it: calls in
flight and just ended with the sidecar's own share of their time, rates and latency
per tool, checks that fail, limits that are nearly used up, and certificates that end
soon. The keys are listed at the foot; q ends it.

Where it does not run in a terminal it prints one snapshot after one interval, as with
--once. It needs the role read, and shows no arguments or results.

Exit codes: 0 it was ended, 2 invalid usage, 3 no answer.`,
		Example: `  sidecar top
  sidecar top --admin unix:///run/outrigger/admin.sock --once
  sidecar top --interval 5s --json > calls.jsonl`,
		Args: noArguments,
	}
	at.register(cmd, env)
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between updates, from 250ms to 1m")
	cmd.Flags().BoolVar(&once, "once", false, "print one snapshot, after one interval, and end")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each update as a line of JSON (outrigger.admin.v1.WatchResponse); with --once the first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if interval < minTopInterval || interval > maxTopInterval {
			return usageError(fmt.Sprintf("--interval: must be at least %v and at most %v, is %v", minTopInterval, maxTopInterval, interval))
		}
		client, err := at.open()
		if err != nil {
			return err
		}
		t := &topWatch{adminClient: client, interval: interval}
		if asJSON {
			err = t.printJSON(cmd.Context(), env.stdout, once)
		} else if screen := openTopScreen(env); screen != nil && !once {
			err = screen.run(cmd.Context(), t)
		} else {
			err = t.printOnce(cmd.Context(), env.stdout)
		}
		if err != nil && cmd.Context().Err() == nil {
			return &exitError{code: exitRefused, text: "top of " + client.name + ": " + t.explain(err)}
		}
		return nil
	}
	return cmd
}

// topWatch watches a sidecar.
type topWatch struct {
	*adminClient
	interval time.Duration
}

// explain says what an error of the API for operators means for a person who asked.
func (c *adminClient) explain(err error) string {
	switch code := connect.CodeOf(err); {
	case isGone(err):
		return "nothing listens there; is the sidecar running, and with --admin " + c.name + "?"
	case code == connect.CodeUnauthenticated, code == connect.CodePermissionDenied:
		return "the listener asks for an operator: name a file with a token by --token-file"
	case code == connect.CodeUnimplemented, code == connect.CodeNotFound:
		return "it does not have outrigger.admin.v1.AdminService: is this the admin listener of a sidecar (--admin), and on loopback or with --admin-tokens?"
	}
	return cellOf(err.Error())
}

// topEvent is a message of a sidecar, or why there is none.
type topEvent struct {
	server  *adminv1.GetServerResponse
	message *adminv1.WatchResponse
	isFirst bool // of its stream
	err     error
	isFatal bool // there is no other attempt
}

// errEnough ends a stream that has said what was wanted.
var errEnough = errors.New("enough")

// watch passes on one stream until it ends or each returns an error. It never returns nil.
func (t *topWatch) watch(ctx context.Context, each func(topEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A sidecar that hangs, or a connection that leads nowhere, is one that is away.
	late := time.AfterFunc(topAnswer, func() { cancel(errors.New("no answer in time")) })
	defer late.Stop()
	because := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	client := adminv1connect.NewAdminServiceClient(t.client, t.base.String(), connect.WithReadMaxBytes(maxStatusAnswer))
	server, err := client.GetServer(ctx, signed(t.adminClient, &adminv1.GetServerRequest{}))
	if err != nil {
		return because(err)
	}
	stream, err := client.Watch(ctx, signed(t.adminClient, &adminv1.WatchRequest{Interval: durationpb.New(t.interval)}))
	if err != nil {
		return because(err)
	}
	defer func() { _ = stream.Close() }()
	for isFirst := true; stream.Receive(); isFirst = false {
		late.Stop()
		if err := each(topEvent{server: server.Msg, message: stream.Msg(), isFirst: isFirst}); err != nil {
			return err
		}
		late.Reset(t.interval + topAnswer)
	}
	if err := stream.Err(); err != nil {
		return because(err)
	}
	return errors.New("the sidecar ended the stream")
}

// signed is a request with the token of the operator, if there is one.
func signed[T any](c *adminClient, message *T) *connect.Request[T] {
	req := connect.NewRequest(message)
	c.authorize(req.Header())
	return req
}

// follow passes on streams, one after another, until ctx ends. A first attempt that fails is the last.
func (t *topWatch) follow(ctx context.Context, events chan<- topEvent) {
	send := func(e topEvent) error {
		select {
		case events <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		if fault := recover(); fault != nil { // the terminal is put in order first
			_ = send(topEvent{err: fmt.Errorf("%v\n%s", fault, debug.Stack()), isFatal: true})
		}
	}()
	begun, wait := false, minTopPause
	for ctx.Err() == nil {
		err := t.watch(ctx, func(e topEvent) error {
			begun, wait = true, minTopPause
			return send(e)
		})
		_ = send(topEvent{err: err, isFatal: !begun})
		if !begun || pause(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, maxTopPause)
	}
}

func (t *topWatch) printJSON(ctx context.Context, out io.Writer, once bool) error {
	err := t.watch(ctx, func(e topEvent) error {
		line, err := protojson.Marshal(e.message)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(jsontext.Visible(jsontext.Compact(nil, line), 0), '\n')); err != nil || !once {
			return err
		}
		return errEnough
	})
	return unlessEnough(err)
}

// printOnce prints a snapshot of two messages, because rates need two.
func (t *topWatch) printOnce(ctx context.Context, out io.Writer) error {
	var state topState
	err := t.watch(ctx, func(e topEvent) error {
		state.server = e.server
		state = state.with(e.message, e.isFirst)
		if e.isFirst {
			return nil
		}
		return errEnough
	})
	if err := unlessEnough(err); err != nil {
		return err
	}
	lines, _ := state.render(topView{}, topSize{columns: topColumns})
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line.text); err != nil {
			return err
		}
	}
	return nil
}

func unlessEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// topScreen is the terminal that a person looks at.
type topScreen struct {
	in, out *os.File
	colour  bool
}

// openTopScreen returns nil unless a person looks at a terminal that can do it.
func openTopScreen(env environment) *topScreen {
	in, canRead := env.stdin.(*os.File)
	out, canWrite := env.stdout.(*os.File)
	if !canRead || !canWrite || !isTerminal(in) || !isTerminal(out) || env.value("TERM", "") == "dumb" {
		return nil
	}
	restore, err := makeRaw(in, out)
	if err != nil {
		return nil
	}
	restore()
	return &topScreen{in: in, out: out, colour: env.hasColour(out)}
}

// run shows a sidecar until the person ends it or ctx does.
func (s *topScreen) run(ctx context.Context, t *topWatch) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan topEvent)
	go t.follow(ctx, events)
	var state topState
	select { // before the screen changes, so that the reason remains where there is nothing to see
	case e := <-events:
		if e.err != nil {
			return e.err
		}
		state = topState{server: e.server}.with(e.message, true)
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.whileRaw(func() error { return s.loop(ctx, t, state, events) })
}

// whileRaw runs fn with a screen for itself, and restores the terminal however fn ends.
func (s *topScreen) whileRaw(fn func() error) error {
	restore, err := makeRaw(s.in, s.out)
	if err != nil {
		return err
	}
	defer restore()
	// The alternate screen, without a cursor; lines that are too long are cut.
	s.print("\x1b[?1049h\x1b[?25l\x1b[?7l")
	defer s.print("\x1b[?7h\x1b[?25h\x1b[?1049l")
	return fn()
}

func (s *topScreen) print(text string) { _, _ = io.WriteString(s.out, text) }

func (s *topScreen) loop(ctx context.Context, t *topWatch, state topState, events <-chan topEvent) error {
	keys, resized := make(chan []string), make(chan os.Signal, 1)
	go s.read(ctx, keys)
	defer notifyResize(resized)()
	shown, view := state, topView{}
	for {
		if !view.isPaused {
			shown = state
		}
		view = s.draw(shown, view)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			switch {
			case e.isFatal:
				return e.err
			case e.err != nil:
				state.away = t.explain(e.err)
			default:
				state.server = e.server
				state = state.with(e.message, e.isFirst)
			}
		case pressed, ok := <-keys:
			if !ok { // the terminal is gone
				return nil
			}
			for _, key := range pressed {
				var quits bool
				if view, quits = view.press(key); quits {
					return nil
				}
			}
		case <-resized:
		}
	}
}

// read sends what the person presses. It may outlast the view until the next key, as a read of a terminal cannot be ended.
func (s *topScreen) read(ctx context.Context, keys chan<- []string) {
	defer close(keys)
	buf := make([]byte, 256)
	for {
		n, err := s.in.Read(buf)
		if err != nil {
			return
		}
		select {
		case keys <- keysOf(buf[:n]):
		case <-ctx.Done():
			return
		}
	}
}

// draw writes all lines over those before, so that nothing flickers.
func (s *topScreen) draw(state topState, view topView) topView {
	columns, lines := terminalSize(s.out)
	if columns <= 0 || lines <= 0 {
		columns, lines = narrow, 24
	}
	text, view := state.render(view, topSize{columns, lines})
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range text {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("\x1b[2K")
		if s.colour && line.look != lookPlain {
			b.WriteString("\x1b[" + line.look + "m" + line.text + "\x1b[0m")
		} else {
			b.WriteString(line.text)
		}
	}
	s.print(b.String() + "\x1b[J")
	return view
}
