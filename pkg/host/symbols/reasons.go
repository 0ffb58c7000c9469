// SPDX-License-Identifier: Apache-2.0

package symbols

import "strings"

const (
	reasonPrefix = "SKB_DROP_REASON_"
	subsysShift  = 16 // SKB_DROP_REASON_SUBSYS_SHIFT
)

// coreEnum has the kernel's own reasons.
const coreEnum = "skb_drop_reason"

// subsystemEnums are the enums of subsystems that have reasons of their own, with
// the prefix of the names that are reasons. Their numbers include the subsystem.
var subsystemEnums = map[string]string{
	"mac80211_drop_reason": "RX_DROP_",
	"ovs_drop_reason":      "OVS_DROP_",
}

// parseReasons collects the drop reasons of a kernel from its BTF; none before 5.17.
func parseReasons(btf []byte) (map[uint32]string, error) {
	reasons := make(map[uint32]string)
	wanted := []string{coreEnum}
	for enum := range subsystemEnums {
		wanted = append(wanted, enum)
	}
	err := findEnums(btf, wanted, func(enum, name string, value uint64) {
		code := uint32(value)
		if prefix := subsystemEnums[enum]; enum != coreEnum {
			if code>>subsysShift != 0 && strings.HasPrefix(name, prefix) {
				reasons[code] = name
			}
			return
		}
		// SKB_CONSUMED is no drop; the mask and the end mark are no reasons.
		if name, ok := strings.CutPrefix(name, reasonPrefix); ok && name != "MAX" && !strings.HasPrefix(name, "SUBSYS_") {
			reasons[code] = name
		}
	})
	return reasons, err
}
