// SPDX-License-Identifier: Apache-2.0

// Package sim is a simulation of what replicas share, from one seed.
package sim
