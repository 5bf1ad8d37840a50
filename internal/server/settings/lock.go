// SPDX-License-Identifier: Apache-2.0

package settings

import (
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
)

// catalogLock reads the lock file; nil if there is none.
func catalogLock(cfg *configv1.Config) (*lock.Lock, error) {
	path := cfg.GetCatalog().GetLockFile()
	if path == "" {
		return nil, nil
	}
	return lock.Read(path)
}

// RefusesDrift reports whether tools that differ from the lock are left out.
func RefusesDrift(cfg *configv1.Config) bool { return cfg.GetCatalog().GetLockMode() == "refuse" }

// CheckLock reads the lock file before a port opens.
func CheckLock(cfg *configv1.Config, report func(path, message string)) {
	c := cfg.GetCatalog()
	if _, err := catalogLock(cfg); err != nil {
		report("catalog.lock_file", err.Error()+"; `sidecar lock update` writes one")
	}
	if RefusesDrift(cfg) && c.GetLockFile() == "" {
		report("catalog.lock_mode", "refuse needs a lock file; set catalog.lock_file (--catalog-lock)")
	}
}
