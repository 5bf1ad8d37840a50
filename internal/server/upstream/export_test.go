// SPDX-License-Identifier: Apache-2.0

package upstream

import configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"

// For tests of what a native backend reports.
type (
	Follower        = follower
	FollowerOptions = followerOptions
)

// NewFollower is newFollower.
func NewFollower(o FollowerOptions) *Follower { return newFollower(o) }

// AsksNative is asksNative.
func AsksNative(c *configv1.Catalog) bool { return asksNative(c) }
