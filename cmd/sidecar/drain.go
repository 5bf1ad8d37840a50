// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/server/listen"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
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
	var address, tokenFile, caFile string
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
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "admin", env.value("OUTRIGGER_ADMIN", defaultAdmin), "admin listener of the running sidecar: host:port, :port, https://host:port or unix:///path")
	cmd.Flags().StringVar(&tokenFile, "token-file", env.value("OUTRIGGER_ADMIN_TOKEN_FILE", ""), "file with the token of an operator, where the admin listener asks for one")
	cmd.Flags().StringVar(&caFile, "ca", "", "PEM file of CAs trusted to sign the certificate of an https:// admin listener; unset: the system's CAs")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultDrainTimeout, "maximum time to wait for the drain to finish")
	cmd.Flags().DurationVar(&delay, "delay", 0, "time that the sidecar keeps serving before the drain begins; at most 5m")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return usageError(fmt.Sprintf("--timeout: must be above 0, is %v", timeout))
		}
		if delay < 0 || delay > maxDrainDelay {
			return usageError(fmt.Sprintf("--delay: must be at least 0s and at most %v, is %v", maxDrainDelay, delay))
		}
		target, err := drainURL(address)
		if err != nil {
			return usageError("--admin: " + err.Error())
		}
		d, err := newDraining(target, tokenFile, caFile)
		if err != nil {
			return err
		}
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

// value is a variable of the environment, or what stands for one that is empty.
func (env environment) value(name, fallback string) string {
	for _, pair := range env.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok && value != "" {
			return value
		}
	}
	return fallback
}

// drainURL is where a drain is asked for. A listener on all addresses is asked on
// this machine.
func drainURL(address string) (*url.URL, error) {
	if path, ok := listen.UnixPath(address); ok {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("want unix:///path, not %q", address)
		}
		return &url.URL{Scheme: "unix", Path: path}, nil
	}
	scheme := "http"
	if rest, ok := strings.CutPrefix(address, "https://"); ok {
		scheme, address = "https", rest
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || port == "0" {
		return nil, fmt.Errorf("want host:port, such as %s, https://host:port or unix:///path, not %q", defaultAdmin, address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: "/drain"}, nil
}

// draining is one wait for a sidecar.
type draining struct {
	// name is the listener in messages.
	name   string
	target *url.URL
	client *http.Client
	token  string
	// begun: the sidecar has answered once. last is what it said.
	begun bool
	last  string
}

// newDraining reads what the listener at target asks for.
func newDraining(target *url.URL, tokenFile, caFile string) (*draining, error) {
	d := &draining{name: target.Host, target: target}
	transport := &http.Transport{DisableKeepAlives: true}
	d.client = &http.Client{Transport: transport}
	if target.Scheme == "unix" {
		d.name = target.Path
		d.target = &url.URL{Scheme: "http", Host: "localhost", Path: "/drain"}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.name)
		}
	}
	if caFile != "" {
		client, err := tlsfiles.NewClient(tlsfiles.ClientOptions{CAFile: caFile, ServerName: target.Hostname()})
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		transport.TLSClientConfig = client.Config()
	}
	if tokenFile == "" {
		return d, nil
	}
	text, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	if d.token = strings.TrimSpace(string(text)); len(d.token) < access.MinToken || len(d.token) > access.MaxToken {
		return nil, fmt.Errorf("--token-file: %s has no token of %d to %d characters", tokenFile, access.MinToken, access.MaxToken)
	}
	return d, nil
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
	target := *d.target
	target.RawQuery = url.Values{"wait": {wait.Truncate(time.Millisecond).String()}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), nil)
	if err != nil {
		return 0, "", err
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDrainAnswer))
	if err != nil {
		return 0, "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return res.StatusCode, strings.ToValidUTF8(line, "?"), nil
}

// isGone holds without a listener, and without the file of its socket.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}
