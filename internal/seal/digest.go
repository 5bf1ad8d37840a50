// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/sha256"
	"encoding/binary"
)

// digestLabel keeps digests apart from other hashes of the same bytes.
const digestLabel = "outrigger seal v1 digest"

// Digest returns the SHA-256 of its parts, each behind its length, so that no
// other list of parts has the same digest. Callers pass what a token must not
// outlive: the method, the name, the arguments.
func Digest(parts ...[]byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(digestLabel))
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// Label is what an operation of the sidecar is called in a digest, given its name. The
// labels are those of the first version and do not change, whatever the operations are
// called elsewhere: replicas of two versions have to open what the other one sealed.
func Label(operation string) []byte {
	switch operation {
	case "call_tool":
		return []byte("tools/call")
	case "list_tools":
		return []byte("tools/list")
	case "list_resources":
		return []byte("resources/list")
	case "list_resource_templates":
		return []byte("resources/templates/list")
	case "read_resource":
		return []byte("resources/read")
	case "list_prompts":
		return []byte("prompts/list")
	case "get_prompt":
		return []byte("prompts/get")
	}
	return []byte(operation)
}
