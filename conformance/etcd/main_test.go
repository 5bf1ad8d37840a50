// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

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
