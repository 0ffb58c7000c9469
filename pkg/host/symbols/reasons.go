// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"strings"

	"github.com/cilium/ebpf/btf"
)

const (
	reasonPrefix = "SKB_DROP_REASON_"
	subsysShift  = 16 // SKB_DROP_REASON_SUBSYS_SHIFT
)

// subsystemEnums are the enums of subsystems that have reasons of their own, with
// the prefix of the names that are reasons. Their numbers include the subsystem.
var subsystemEnums = map[string]string{
	"mac80211_drop_reason": "RX_DROP_",
	"ovs_drop_reason":      "OVS_DROP_",
}

// parseReasons collects the drop reasons of a kernel; none before 5.17.
func parseReasons(spec *btf.Spec) map[uint32]string {
	reasons := make(map[uint32]string)
	var core *btf.Enum
	if spec.TypeByName("skb_drop_reason", &core) == nil {
		for _, v := range core.Values {
			name, ok := strings.CutPrefix(v.Name, reasonPrefix)
			// SKB_CONSUMED is no drop; the mask and the end mark are no reasons.
			if !ok || name == "MAX" || strings.HasPrefix(name, "SUBSYS_") {
				continue
			}
			reasons[uint32(v.Value)] = name
		}
	}
	for enum, prefix := range subsystemEnums {
		var sub *btf.Enum
		if spec.TypeByName(enum, &sub) != nil {
			continue
		}
		for _, v := range sub.Values {
			if code := uint32(v.Value); code>>subsysShift != 0 && strings.HasPrefix(v.Name, prefix) {
				reasons[code] = v.Name
			}
		}
	}
	return reasons
}
