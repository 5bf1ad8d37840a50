// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// stateVariable names the node's folder, in the environment of who is inside.
const stateVariable = "OUTRIGGER_NODE_STATE"

// private are folders that Kubernetes and containerd write to whatever they are
// told. Inside, each is its own empty one.
func private() []string {
	return []string{"/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni"}
}

// Inside reports whether this process was started by Enter.
func Inside() bool { return os.Getenv(stateVariable) != "" }

// Enter runs this program again, with the same arguments, in namespaces of its
// own, and returns its exit code. It must be called from the main goroutine. The
// node's folder is made before and removed after, with its cgroups; keep leaves
// the folder for reading logs, and names it in an error.
func Enter(keep func(code int) bool) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("a node takes root; run it with sudo, or in its own machine")
	}
	made, err := makeFolders(private())
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, removeFolders(made)) }()
	state, err := os.MkdirTemp("", "ot-node-")
	if err != nil {
		return 1, fmt.Errorf("node: %w", err)
	}
	cgroup := cgroupName(os.Getpid())
	// The kernel ends the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], os.Args[1:]...) //nolint:gosec // this very program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stateVariable+"="+state, cgroupVariable+"="+cgroup)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err != nil {
		code = 1
	}
	err = errors.Join(err, removeCgroups(cgroup))
	if keep(code) {
		return code, errors.Join(err, fmt.Errorf("the node's folder with its logs is kept: %s", state))
	}
	return code, errors.Join(err, os.RemoveAll(state))
}

// Settle is the first thing to do inside: private mounts, the process list of
// this namespace, and the loopback interface.
func Settle() error {
	// Nothing mounted here is seen outside; the node's own processes share it.
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("node: private mounts: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("node: shared mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("node: /proc: %w", err)
	}
	for _, folder := range private() {
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("node: %s: %w", folder, err)
		}
	}
	if err := syscall.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("node: host name: %w", err)
	}
	return run("ip", "link", "set", "lo", "up")
}

// makeFolders makes those that are missing, and returns them.
func makeFolders(folders []string) ([]string, error) {
	var made []string
	for _, folder := range folders {
		switch err := os.Mkdir(folder, 0o755); { //nolint:gosec // as packages make them
		case err == nil:
			made = append(made, folder)
		case !errors.Is(err, fs.ErrExist):
			return made, errors.Join(fmt.Errorf("node: %w", err), removeFolders(made))
		}
	}
	return made, nil
}

// removeFolders removes folders, if they are as empty as they were made.
func removeFolders(folders []string) error {
	var errs []error
	for _, folder := range folders {
		errs = append(errs, os.Remove(folder))
	}
	return errors.Join(errs...)
}

// run runs a program of the distribution.
func run(name string, args ...string) error {
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil { //nolint:gosec // fixed programs
		return fmt.Errorf("%s %v: %w\n%s", filepath.Base(name), args, err, text)
	}
	return nil
}

// cgroupName is that of the node of a process.
func cgroupName(pid int) string { return "outrigger-node-" + strconv.Itoa(pid) }
