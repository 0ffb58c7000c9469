// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/fault"
)

// openRecorded opens a recording as a source of packets.
func openRecorded(string, *answer.Selection) (*answer.Sources, []answer.Note, error) {
	return nil, nil, fault.Unsupported.Errorf("this radar does not read recordings: use a file of radar packets --last 0 -o json")
}
