// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

const (
	version = "0.1.0"
	// patience bounds what has to start or to be installed. A Go install compiles all of the module, beside other tests.
	patience = 10 * time.Minute
)

var (
	platforms = flag.String("platforms", "linux/"+runtime.GOARCH, "what TestTwice builds for; all takes minutes")
	npm       = flag.String("npm-registry", "", "folder in which npm ci has installed testdata/registry; `make release-test` does it")
	buf       = flag.String("buf", "", "the program buf; `make release-test` installs it")
	out       string
	// theRelease is built once for all tests, for this machine.
	theRelease = sync.OnceValues(func() (Options, error) {
		o, err := testOptions(filepath.Join(out, "release"), "linux/"+runtime.GOARCH)
		if err != nil {
			return o, err
		}
		if err := Build(context.Background(), o); err != nil {
			return o, err
		}
		return o.checked(context.Background())
	})
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "outrigger-release-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		// Containers run as another user and reach their root through it.
		if err := os.Chmod(folder, 0o755); err != nil {
			panic(err)
		}
		out = folder
		if err := makeKey(filepath.Join(folder, "key.pem")); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// makeKey writes a private key, so that two releases have one.
func makeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// testOptions are those of a release of the present tree, changes and all.
func testOptions(folder, list string) (Options, error) {
	names, err := LoadNames()
	if err != nil {
		return Options{}, err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return Options{}, err
	}
	var all []v1.Platform
	if list != "all" {
		if all, err = ParsePlatforms(list); err != nil {
			return Options{}, err
		}
	}
	return Options{
		Names: names, Root: root, Out: folder, Version: version, Dirty: true, Platforms: all, Key: filepath.Join(out, "key.pem"),
	}, nil
}

func built(t *testing.T) Options {
	t.Helper()
	o, err := theRelease()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// run runs a command to its end and returns what it prints.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return string(text)
}

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, name, args...)
}

// confined is a command that sees nothing but a folder.
func confined(t *testing.T, root, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, name, args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// served starts a command that serves, waits until it is ready, and ends it and what it started at the end of the test.
// It returns what it has logged so far.
func served(t *testing.T, cmd *exec.Cmd, ready string) string {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		_ = writer.Close()
	})
	began := make(chan string, 1)
	go func() {
		var seen strings.Builder
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			seen.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), ready) {
				began <- seen.String()
				_, _ = io.Copy(io.Discard, reader)
				return
			}
		}
		began <- seen.String()
	}()
	select {
	case text := <-began:
		if !strings.Contains(text, ready) {
			t.Fatalf("%v ended:\n%s", cmd.Args, text)
		}
		return text
	case <-time.After(patience):
		t.Fatalf("%v did not say %s in time", cmd.Args, ready)
	}
	return ""
}

// freeAddress is an address on loopback that the kernel gives to no one who asks for any, until the test ends. A server can listen there
// that sets SO_REUSEADDR, as those of Go and Node do.
func freeAddress(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	v4, ok := bound.(*unix.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", v4.Port)
}

// demo serves the demo by a command, whose arguments it completes, and calls a tool of it. It returns the log.
func demo(t *testing.T, cmd *exec.Cmd, flags ...string) string {
	t.Helper()
	address := freeAddress(t)
	cmd.Args = append(cmd.Args, "serve", "--demo", "--listen", address, "--admin", "127.0.0.1:0")
	cmd.Args = append(cmd.Args, flags...)
	log := served(t, cmd, `"msg":"ready"`)
	callTool(t, address)
	return log
}

func callTool(t *testing.T, address string) {
	t.Helper()
	const request = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"unsigned":18446744073709551615}}}`
	got, err := http.Post("http://"+address+"/rpc", "application/json", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"unsigned":"18446744073709551615"`)) {
		t.Fatalf("%s %s (%v)", got.Status, body, err)
	}
}

// wantVersion checks what a binary says about itself.
func wantVersion(t *testing.T, text string, o Options) {
	t.Helper()
	if want := fmt.Sprintf("sidecar %s\ncommit %s\n", o.Version, o.Commit); !strings.HasPrefix(text, want) {
		t.Errorf("version says %q, want %q", text, want)
	}
}

// unpacked unpacks a .tar.gz or .tgz into a new folder.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	folder := t.TempDir()
	run(t, command(t, "tar", "-xzf", archive, "-C", folder))
	return folder
}
