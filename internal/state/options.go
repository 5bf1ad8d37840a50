// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Options configure a [Client]. URL and Sealer are required; other zero fields take the
// defaults.
type Options struct {
	// URL names NATS servers, separated by commas.
	URL string
	// Name is that of the deployment: buckets and streams are named outrigger_<name>_….
	Name string
	// CredentialsFile, NkeyFile, Username with PasswordFile, or TokenFile say who the sidecar is.
	CredentialsFile, NkeyFile         string
	Username, PasswordFile, TokenFile string
	// TLS has the CAs and the certificate towards NATS; nil means TLS only where the URL or
	// the server asks for it, with the system's CAs.
	TLS *keys.ClientOptions
	// Replicas is the number of servers that keep a copy.
	Replicas int
	// InMemory keeps everything in the memory of the servers.
	InMemory bool
	// Timeout bounds one operation.
	Timeout time.Duration
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

// namePattern is that of deployments, buckets and streams. A dot would end a token of a
// subject, and an underscore the name of the deployment.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`) })

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "default"
	}
	defaults.Fill(&o.Replicas, defaults.StateReplicas)
	defaults.Fill(&o.Timeout, defaults.StateOperationTimeout)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	switch {
	case o.URL == "":
		return o, errors.New("state: no URL")
	case o.Sealer == nil:
		return o, errors.New("state: no sealer")
	case !namePattern().MatchString(o.Name):
		return o, fmt.Errorf("state: the name %q has other characters than letters, digits and dashes, or more than 32", o.Name)
	}
	return o, nil
}

func (o Options) storage() jetstream.StorageType {
	if o.InMemory {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// secrets are the files that say who the sidecar is; empty where there is none.
func (o Options) secrets() []string {
	return []string{o.CredentialsFile, o.NkeyFile, o.PasswordFile, o.TokenFile}
}

// Files returns the files that are read, for who watches them.
func (o Options) Files() []string {
	var out []string
	for _, path := range o.secrets() {
		if path != "" {
			out = append(out, path)
		}
	}
	if o.TLS != nil {
		for _, path := range []string{o.TLS.CAFile, o.TLS.CertFile, o.TLS.KeyFile} {
			if path != "" {
				out = append(out, path)
			}
		}
	}
	return out
}

// connecting are the options of a connection, by the files as they are now.
func (o Options) connecting() ([]nats.Option, error) {
	out := []nats.Option{
		nats.Name("outrigger " + o.Name), nats.Timeout(o.Timeout),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return min(reconnectMin<<min(attempts, 10), reconnectMax)
		}),
		// Nothing is written for later: it would be acknowledged by no one.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
	}
	if o.Dialer != nil {
		out = append(out, nats.SetCustomDialer(o.Dialer))
	}
	for _, path := range o.secrets() {
		if path == "" {
			continue
		}
		if _, err := keys.ReadFile(path, maxFileBytes); err != nil {
			return nil, fmt.Errorf("state credentials: %w", err)
		}
	}
	if o.CredentialsFile != "" {
		text, err := keys.ReadFile(o.CredentialsFile, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("state credentials: %w", err)
		}
		if err := checkCredentials(text); err != nil {
			return nil, fmt.Errorf("state.credentials_file %s: %w", o.CredentialsFile, err)
		}
		out = append(out, nats.UserCredentialBytes(text))
	}
	if o.NkeyFile != "" {
		key, err := nats.NkeyOptionFromSeed(o.NkeyFile)
		if err != nil {
			return nil, fmt.Errorf("state.nkey_file %s: it has no NKey seed of a user, which begins with SU", o.NkeyFile)
		}
		out = append(out, key)
	}
	if o.PasswordFile != "" {
		password, err := readSecret("state.password_file", o.PasswordFile)
		if err != nil {
			return nil, err
		}
		out = append(out, nats.UserInfo(o.Username, password))
	}
	if o.TokenFile != "" {
		token, err := readSecret("state.token_file", o.TokenFile)
		if err != nil {
			return nil, err
		}
		out = append(out, nats.Token(token))
	}
	if o.TLS != nil {
		config, err := keys.ReadClient(*o.TLS)
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
