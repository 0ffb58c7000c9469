// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/intwire"
)

// ProfileCompletions are the names of profiles behind something.
func ProfileCompletions(behind string) []cobra.Completion {
	var all []cobra.Completion
	for i := range intwire.Profiles {
		all = append(all, cobra.CompletionWithDesc(behind+intwire.Profiles[i].Name, intwire.Profiles[i].Title))
	}
	return all
}
