// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// checkFiles looks at the files that the configuration names before a port
// opens.
func checkFiles(cfg *configv1.Config, report func(path, message string)) {
	for i, ref := range cfg.GetCatalog().GetDescriptors() {
		if wrong := checkDescriptors(ref); wrong != "" {
			report(fmt.Sprintf("catalog.descriptors[%d]", i), wrong)
		}
	}
	servers := FetchOptions(cfg.GetCatalog())
	if err := servers.CheckCAFile(); err != nil {
		report("catalog.fetch_ca_file", err.Error())
	}
	if err := servers.CheckCredentialsFile(); err != nil {
		report("catalog.fetch_credentials_file", err.Error())
	}
	if path := cfg.GetState().GetKeyFile(); path != "" {
		if _, err := seal.LoadKeys(path); err != nil {
			report("state.key_file", err.Error())
		}
	}
}

// checkReadable says why a file cannot be read, in words that need only the
// flag's name before them.
func checkReadable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file %s does not exist", path)
	}
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, not a file", path)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path) // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return f.Close()
}
