// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Options configure a [Client]. Config and Sealer are required.
type Options struct {
	// Config is complete, and has a URL.
	Config *configv1.State
	// Sealer seals what is stored. Its maximum payload is that of a value.
	Sealer *keys.Sealer
	// Dialer opens the connections; nil is TCP. A simulation has a network without sockets.
	Dialer nats.CustomDialer
	// Log receives one warning when the state becomes unavailable, and one line when it is
	// back.
	Log *zap.Logger
}

const (
	// reconnectMin and reconnectMax are the pauses between attempts to connect: short,
	// because a lease runs, and not so short that a fleet keeps a server from starting.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 2 * time.Second
	// pingInterval and maxPings find a connection that is dead without a word in ten
	// seconds.
	pingInterval = 5 * time.Second
	maxPings     = 2
	// lookAgain is the time between two looks at what is not as it should be.
	lookAgain = time.Second
	// markerTTL is how long NATS remembers that a key has expired, for watchers that were away.
	markerTTL = time.Minute
	// rememberForever is the lifetime of the delete marker of a value that never expires. By then the server has long rewritten the
	// block of messages that held the value, and cannot bring it back.
	rememberForever = 30 * 24 * time.Hour
	// maxFileBytes bounds a file with credentials.
	maxFileBytes = 64 << 10
)

// newClient returns a client that is not connected.
func newClient(o Options) *Client {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Client{
		opts: o, config: o.Config, url: o.Config.GetUrl(), name: o.Config.GetName(), replicas: int(o.Config.GetReplicas()), timeout: o.Config.GetOperationTimeout().AsDuration(),
		looking: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

func (c *Client) storage() jetstream.StorageType {
	if c.config.GetStorage() == "memory" {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// secrets are the files that say who the sidecar is; empty where there is none.
func (c *Client) secrets() []string {
	return []string{c.config.GetCredentialsFile(), c.config.GetNkeyFile(), c.config.GetPasswordFile(), c.config.GetTokenFile()}
}

// Files returns the files that are read; [Client.Reload] reads them again.
func (c *Client) Files() []string {
	tls := c.config.GetTls()
	all := append(c.secrets(), tls.GetCaFile(), tls.GetCertFile(), tls.GetKeyFile())
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}

// connecting are the options of a connection, by the files as they are now.
func (c *Client) connecting() ([]nats.Option, error) {
	out := []nats.Option{
		nats.Name("outrigger " + c.name), nats.Timeout(c.timeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return min(reconnectMin<<min(attempts, 10), reconnectMax)
		}),
		// Nothing is written for later: it would be acknowledged by no one.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
	}
	if c.opts.Dialer != nil {
		out = append(out, nats.SetCustomDialer(c.opts.Dialer))
	}
	for _, path := range c.secrets() {
		if path == "" {
			continue
		}
		if _, err := keys.ReadFile(path, maxFileBytes); err != nil {
			return nil, fmt.Errorf("state credentials: %w", err)
		}
	}
	if path := c.config.GetCredentialsFile(); path != "" {
		text, err := keys.ReadFile(path, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("state credentials: %w", err)
		}
		if err := checkCredentials(text); err != nil {
			return nil, fmt.Errorf("state.credentials_file %s: %w", path, err)
		}
		out = append(out, nats.UserCredentialBytes(text))
	}
	if path := c.config.GetNkeyFile(); path != "" {
		key, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return nil, fmt.Errorf("state.nkey_file %s: it has no NKey seed of a user, which begins with SU", path)
		}
		out = append(out, key)
	}
	if path := c.config.GetPasswordFile(); path != "" {
		password, err := readSecret("state.password_file", path)
		if err != nil {
			return nil, err
		}
		out = append(out, nats.UserInfo(c.config.GetUsername(), password))
	}
	if path := c.config.GetTokenFile(); path != "" {
		token, err := readSecret("state.token_file", path)
		if err != nil {
			return nil, err
		}
		out = append(out, nats.Token(token))
	}
	if tls := c.config.GetTls(); tls != nil {
		config, err := keys.ReadClient(keys.ClientOptions{CAFile: tls.GetCaFile(), CertFile: tls.GetCertFile(), KeyFile: tls.GetKeyFile()})
		if err != nil {
			return nil, fmt.Errorf("state.tls: %w", err)
		}
		out = append(out, nats.Secure(config))
	}
	return out, nil
}

// readSecret reads a secret of one line, and shows nothing of it.
func readSecret(setting, path string) (string, error) {
	text, err := keys.ReadFile(path, maxFileBytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s %s: it has no secret of one line", setting, path)
	}
	return secret, nil
}
