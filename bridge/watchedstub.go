// SPDX-License-Identifier: Apache-2.0

package bridge

import adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"

// Watch, InFlight and EndedSince come with the next change.
func (b *Bridge) Watch() func() { return func() {} }

// InFlight is empty.
func (b *Bridge) InFlight(int) ([]*adminv1.Call, int) { return nil, 0 }

// EndedSince is empty.
func (b *Bridge) EndedSince(last uint64, _ int) ([]*adminv1.Call, uint64, int64) { return nil, last, 0 }
