// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"testing"
)

// The value of an enum that was most likely meant is found without the prefix of all values, wherever in the list it is.
func TestNearestValue(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("VEHICLE_STATE_%c%c%c", 'A'+i, 'A'+i, 'A'+i))
	}
	names = append(names, "VEHICLE_STATE_IDLE", "VEHICLE_STATE_EN_ROUTE")
	for name, want := range map[string]string{
		"IDLE": "VEHICLE_STATE_IDLE", "idle": "VEHICLE_STATE_IDLE", "enroute": "VEHICLE_STATE_EN_ROUTE", "IDLEE": "VEHICLE_STATE_IDLE",
		"VEHICLE_STATE_IDEL": "VEHICLE_STATE_IDLE", "PARKED": "",
	} {
		if got := NearestValue(name, names); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := NearestValue("x", []string{"", "ab"}); got != "" {
		t.Errorf("of values without a prefix: %q", got)
	}
}
