// SPDX-License-Identifier: Apache-2.0

// Package sim simulates what replicas share: the code of the product on a network and NATS servers that one goroutine schedules, all
// from one seed.
//
//	go test ./sim                                         # some seeds, and that a seed repeats itself
//	go test ./sim -run TestSeeds -v -args -seeds 2000     # many, and what they reached
//	go test ./sim -run TestReplay -v -args -seeds 1 -seed 7 -trace
//
// world_test.go has the scheduler, network_test.go the connections, faults_test.go what breaks, clients_*_test.go what callers do, and
// properties_test.go and ledger_test.go what must hold. The tests build the simulation once more, with the edits of package overlay,
// and run it in processes of their own.
package sim
