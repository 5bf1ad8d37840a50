// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// unixScheme begins the address of a Unix socket.
const unixScheme = "unix://"

// UnixPath returns the path of an address of the form unix:///path.
func UnixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixScheme) }

// maxPath is the longest path that clients can connect to (unix(7), sun_path, less the
// byte that ends it). Some systems take fewer.
const maxPath = 107

// dialTimeout bounds the check whether a socket is in use.
const dialTimeout = time.Second

// listenUnix listens on a Unix socket with file permissions. The socket of a process
// that has ended is replaced; one that is in use, or another kind of file, is an error.
//
// The socket is made in a directory that only this user can enter and then moved, so
// that no other user can connect before it has its permissions.
func listenUnix(ctx context.Context, path, mode string) (net.Listener, error) {
	permissions, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return nil, fmt.Errorf("mode %q: want octal file permissions such as 0600", mode)
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s: the path has %d bytes, over the limit of %d", path, len(path), maxPath)
	}
	if err := mayReplace(path); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".outrigger-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	made := filepath.Join(folder, "s")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", made)
	if err != nil {
		return nil, err
	}
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("unexpected listener %T", listener), listener.Close())
	}
	socket.SetUnlinkOnClose(false) // by its first name
	if err := errors.Join(os.Chmod(made, os.FileMode(permissions)), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	id, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &unixListener{UnixListener: socket, at: &net.UnixAddr{Net: "unix", Name: path}, id: id}, nil
}

// mayReplace returns nil if nothing is at path, or a socket on which nothing listens.
func mayReplace(path string) error {
	at, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case at.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: %w", path, syscall.EADDRINUSE), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return nil
	}
	return fmt.Errorf("%s exists: %w", path, err)
}

// unixListener is a socket under its final name. Its connections say who is at the
// other end.
type unixListener struct {
	*net.UnixListener

	at *net.UnixAddr
	id os.FileInfo
}

// Addr implements [net.Listener].
func (l *unixListener) Addr() net.Addr { return l.at }

// Accept implements [net.Listener].
func (l *unixListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &unixConn{UnixConn: conn, process: peerOf(conn)}, nil
}

// Close removes the socket, unless another process has replaced it.
func (l *unixListener) Close() error {
	if now, err := os.Lstat(l.at.Name); err == nil && os.SameFile(now, l.id) {
		_ = os.Remove(l.at.Name)
	}
	return l.UnixListener.Close()
}

// unixConn is a connection whose remote address is the process at the other end.
type unixConn struct {
	*net.UnixConn

	process unixPeer
}

// RemoteAddr implements [net.Conn].
func (c *unixConn) RemoteAddr() net.Addr { return c.process }

// unixPeer is the process at the other end of a Unix socket, as the kernel knew it when it connected.
type unixPeer struct {
	uid, gid uint32
	pid      int32
	// isKnown is false where the system does not say.
	isKnown bool
}

// Network implements [net.Addr].
func (unixPeer) Network() string { return "unix" }

// String implements [net.Addr].
func (p unixPeer) String() string {
	if !p.isKnown {
		return "unix"
	}
	return fmt.Sprintf("unix:uid=%d,pid=%d", p.uid, p.pid)
}

// processOf is the process at the other end of a request's connection; nil for other connections. It asks the connection, and not the
// request, whose address a handler in front of this one may have taken from a header.
func processOf(ctx context.Context) *identity.Process {
	if p, ok := peer.Remote(ctx).(unixPeer); ok && p.isKnown {
		return &identity.Process{UID: p.uid, GID: p.gid}
	}
	return nil
}
