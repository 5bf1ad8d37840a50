// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

func TestTheVerbOfAName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Delete": "delete", "DeleteImage": "delete", "MemberRemove": "remove", "LeaseRevoke": "revoke", "UserRevokeRole": "revoke",
		"BatchDeleteRows": "delete", "ProcessKill": "kill", "RequestReset": "reset", "delete-file": "delete", "fs.rm": "rm",
		"ResetWorkflowExecution": "reset", "DropRowRange": "drop", "TerminateWorkflowExecution": "terminate", "KILL_ALL": "kill",
		"ListDeleted": "", "GetDeleteStatus": "", "UpdateDeletePolicy": "", "SetKillSwitch": "", "Undelete": "", "WatchRemove": "",
		"CreateDropTarget": "", "Dropdown": "", "Echo": "", "": "", "Removed": "",
	} {
		if got := catalog.DestroyingVerb(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
