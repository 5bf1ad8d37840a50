// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// built is what TestMain made; it is written before the first test starts.
var built struct {
	// binary is the sidecar, etcd the server, descriptors a file with all of its services.
	binary, etcd, descriptors string
}

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(ctx context.Context, binary, dir string) error {
		built.binary = binary
		built.etcd, built.descriptors = filepath.Join(dir, "etcd"), filepath.Join(dir, "etcd.binpb")
		return errors.Join(buildEtcd(ctx, built.etcd), writeDescriptors(ctx, built.descriptors))
	}))
}

// waitLimit bounds the wait for something that another process does.
const waitLimit = 20 * time.Second

// eventually waits until a condition holds. Other processes cannot be put under a fake clock, so
// it asks again and again.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(waitLimit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not after %s: %s", waitLimit, what)
		}
	}
}
