// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	// defaultAdmin is where `sidecar serve` listens for operators.
	defaultAdmin = "127.0.0.1:9901"
	// defaultDrainTimeout is a little more than the default grace period.
	defaultDrainTimeout = 30 * time.Second
	// drainRound is how long one request waits for the end of the drain, so that a
	// sidecar that hangs is noticed.
	drainRound = 5 * time.Second
	// drainSlack is what an answer may take beyond that.
	drainSlack = 5 * time.Second
	// drainPause is the time between two attempts where one failed.
	drainPause = 50 * time.Millisecond
	// maxDrainDelay is far above what a cluster needs to hear of the end of a pod.
	maxDrainDelay = 5 * time.Minute
	// maxDrainAnswer bounds what is read of an answer.
	maxDrainAnswer = 4 << 10
)

func newDrainCommand(env environment) *cobra.Command {
	var at adminFlags
	var timeout, delay time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain a running sidecar and wait until it has stopped (for preStop hooks)",
		Long: `Drain tells the sidecar on an admin listener to accept no new calls, and waits
until the calls in flight have finished and the process has stopped. With --delay
the sidecar keeps serving for that long first, so that load balancers can remove
the pod before it rejects calls. The admin listener may be a Unix socket
(--admin unix:///path). Where operators authenticate, --token-file names a file
with the token of one whose role is operate.

Exit codes: 0 the sidecar has drained, or nothing listens on the address any more;
1 the drain is not finished after --timeout (it continues until the sidecar's own
--grace is over), or something else answers on the address.`,
		Example: `  sidecar drain
  sidecar drain --admin 127.0.0.1:9901 --delay 5s --timeout 25s
  sidecar drain --admin unix:///run/outrigger/admin.sock --token-file drain-token`,
		Args: noArguments,
	}
	at.register(cmd, env)
	cmd.Flags().DurationVar(&timeout, "timeout", defaultDrainTimeout, "maximum time to wait for the drain to finish")
	cmd.Flags().DurationVar(&delay, "delay", 0, "time that the sidecar keeps serving before the drain begins; at most 5m")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return usageError(fmt.Sprintf("--timeout: must be above 0, is %v", timeout))
		}
		if delay < 0 || delay > maxDrainDelay {
			return usageError(fmt.Sprintf("--delay: must be at least 0s and at most %v, is %v", maxDrainDelay, delay))
		}
		client, err := at.open()
		if err != nil {
			return err
		}
		d := &draining{adminClient: client}
		if err := pause(cmd.Context(), delay); err != nil {
			return fmt.Errorf("drain %s: interrupted before it began: %w", d.name, err)
		}
		text, err := d.run(cmd.Context(), timeout)
		if err != nil {
			return err
		}
		fmt.Fprintln(env.stdout, text)
		return nil
	}
	return cmd
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// value is a variable of the environment, or what represents one that is empty.
func (env environment) value(name, fallback string) string {
	for _, pair := range env.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok && value != "" {
			return value
		}
	}
	return fallback
}

// draining is one wait for a sidecar.
type draining struct {
	*adminClient
	// begun: the sidecar has answered once. last is what it said.
	begun bool
	last  string
}

// run asks until the sidecar has drained, is gone, or the time is over. It
// returns what there is to say.
func (d *draining) run(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end, _ := ctx.Deadline()
	for {
		// The first answer comes at once, so that it is known who answers.
		wait := time.Duration(0)
		if d.begun {
			wait = max(min(time.Until(end), drainRound), 0)
		}
		status, text, err := d.ask(ctx, wait)
		switch {
		case err != nil && isGone(err):
			if d.begun {
				return "the sidecar has stopped", nil
			}
			return "nothing listens at " + d.name + ": the sidecar has stopped already", nil
		case ctx.Err() != nil:
			return "", d.late(ctx, timeout)
		case err != nil && !d.begun:
			return "", fmt.Errorf("drain %s: %w", d.name, err)
		case err != nil:
			// It ended within an answer; the next attempt finds no listener.
			select {
			case <-time.After(drainPause):
			case <-ctx.Done():
			}
		case status == http.StatusOK:
			return text, nil
		case status == http.StatusAccepted:
			d.begun, d.last = true, text
		case status == http.StatusUnauthorized, status == http.StatusForbidden:
			return "", fmt.Errorf("drain %s: %s; --token-file names the token of an operator whose role is operate", d.name, text)
		default:
			return "", fmt.Errorf("drain %s: unexpected response %d %s: is this the admin listener of a sidecar (--admin)?", d.name, status, text)
		}
	}
}

// late says that the time is over.
func (d *draining) late(ctx context.Context, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("drain %s: interrupted; the sidecar continues to drain", d.name)
	}
	if !d.begun {
		return fmt.Errorf("drain %s: no answer within %v", d.name, timeout)
	}
	return fmt.Errorf("drain %s: not finished within %v (%s); the sidecar continues until its own --grace is over", d.name, timeout, d.last)
}

// ask sends one request, which waits for the end of the drain itself.
func (d *draining) ask(ctx context.Context, wait time.Duration) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+drainSlack)
	defer cancel()
	status, body, err := d.send(ctx, http.MethodPost, "/drain", url.Values{"wait": {wait.Truncate(time.Millisecond).String()}}, maxDrainAnswer)
	if err != nil {
		return 0, "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	return status, plainText(line), nil
}

// isGone holds without a listener, and without the file of its socket.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
