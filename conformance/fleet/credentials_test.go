// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// rotates checks that a client works with the first text of a file, keeps its connection while the file has nothing usable,
// and uses the second text after it was replaced.
func rotates(t *testing.T, n *natsServer, o state.Options, file, first, second string, isSecond func(*server.ConnInfo) bool) {
	t.Helper()
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	c := open(t, o)
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", []byte("one"), time.Hour); err != nil {
		t.Fatal(err)
	}
	put("\n")
	if err := c.Reload(); err == nil || strings.Contains(err.Error(), first) {
		t.Errorf("reload of a file with nothing in it: %v", err)
	}
	if _, err := b.Get(t.Context(), "k"); err != nil {
		t.Errorf("after a reload that failed: %v", err)
	}
	put(second)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the other secret is used, and the old connection is gone", func() bool {
		got, err := n.running.Connz(&server.ConnzOptions{Username: true})
		return err == nil && len(got.Conns) == 1 && isSecond(got.Conns[0])
	})
	testkit.Until(t, "it works", func() bool {
		e, err := b.Get(t.Context(), "k")
		return err == nil && string(e.Value) == "one"
	})
}

// TestPasswordChanges: a password is read from its file, also again.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "sidecar", Password: "the first password"}}
	})
	file := filepath.Join(t.TempDir(), "password")
	o := state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), Username: "sidecar", PasswordFile: file})}
	rotates(t, n, o, file, "the first password\n", "the first password", func(c *server.ConnInfo) bool { return c.AuthorizedUser == "sidecar" })
	if err := os.WriteFile(file, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := open(t, o)
	testkit.Until(t, "a wrong password is said", func() bool { return strings.Contains(strings.ToLower(bad.Health().Why), "authorization violation") })
	if strings.Contains(bad.Health().Why, "wrong") {
		t.Errorf("the password is in %q", bad.Health().Why)
	}
}

// TestTokenChanges: a token that is replaced at the server and in its file is used without a restart.
func TestTokenChanges(t *testing.T) {
	t.Parallel()
	n := startNATS(t, func(o *server.Options) { o.Authorization = "the first token" })
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the first token"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), TokenFile: file})})
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "k", []byte("one"), time.Hour); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n.options.Authorization = "the second token"
	n.start()
	testkit.Until(t, "the old token is refused", func() bool {
		return !c.Health().OK && strings.Contains(strings.ToLower(c.Health().Why), "authorization violation")
	})
	if err := os.WriteFile(file, []byte("the second token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	healthy(t, c)
	testkit.Until(t, "it works", func() bool {
		e, err := b.Get(t.Context(), "k")
		return err == nil && string(e.Value) == "one"
	})
}

// pair is a key with its public name.
func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// TestCredentialsChange: a server in operator mode knows users by their JWT, and a credentials file that is replaced is used
// without a restart.
func TestCredentialsChange(t *testing.T) {
	t.Parallel()
	operatorKey, operator := pair(t, nkeys.CreateOperator)
	accountKey, account := pair(t, nkeys.CreateAccount)
	_, system := pair(t, nkeys.CreateAccount)
	sign := func(claims jwt.Claims, by nkeys.KeyPair) string {
		t.Helper()
		text, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	claims := jwt.NewAccountClaims(account)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	resolver := &server.MemAccResolver{}
	for name, text := range map[string]string{account: sign(claims, operatorKey), system: sign(jwt.NewAccountClaims(system), operatorKey)} {
		if err := resolver.Store(name, text); err != nil {
			t.Fatal(err)
		}
	}
	credentials := func() (file, user string) {
		t.Helper()
		key, public := pair(t, nkeys.CreateUser)
		seed, err := key.Seed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(sign(jwt.NewUserClaims(public), accountKey), seed)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), public
	}
	n := startNATS(t, func(o *server.Options) {
		o.TrustedKeys, o.AccountResolver, o.SystemAccount = []string{operator}, resolver, system
	})
	first, _ := credentials()
	second, user := credentials()
	file := filepath.Join(t.TempDir(), "sidecar.creds")
	rotates(t, n, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), CredentialsFile: file})}, file, first, second, func(c *server.ConnInfo) bool { return c.AuthorizedUser == user || c.NameTag == user })
	stranger, _ := pair(t, nkeys.CreateAccount)
	accountKey = stranger
	forged, _ := credentials()
	if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if i, err := state.Inspect(state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), CredentialsFile: file}), Sealer: newSealer(t)}); err == nil {
		i.Close()
		t.Error("a user of another account was let in")
	}
}

// TestStorageInMemory: it works as on the disk, and is lost when the server restarts, which the bucket survives as another one.
func TestStorageInMemory(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), Storage: new("memory")})})
	b := c.Bucket(things())
	healthy(t, c)
	revision, err := b.Create(t.Context(), "k", []byte("one"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), "k", []byte("two"), revision, time.Hour); err != nil {
		t.Fatal(err)
	}
	s, err := n.admin().Stream(t.Context(), "KV_outrigger_default_things")
	if err != nil || s.CachedInfo().Config.Storage != jetstream.MemoryStorage {
		t.Fatalf("%+v, %v", s, err)
	}
	n.stop()
	n.start()
	testkit.Until(t, "the key is gone", func() bool {
		_, err := b.Get(t.Context(), "k")
		return errors.Is(err, state.ErrNotFound)
	})
	if _, err := b.Create(t.Context(), "k", []byte("three"), time.Hour); err != nil {
		t.Error(err)
	}
}
