// SPDX-License-Identifier: Apache-2.0

package connectapi

// Lasting is how many streams of Subscribe and WatchTools are open.
func (s *Service) Lasting() int64 { return s.lasting.Load() }
