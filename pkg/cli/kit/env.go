// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/fault"
)

// EnvName is the environment variable of a flag: guid-bits is RADAR_GUID_BITS.
func EnvName(flag string) string {
	return "RADAR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// bindEnv sets the flags of cmd that the command line does not set from the
// environment. An empty variable counts as not set.
func bindEnv(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var failed error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, ok := lookup(EnvName(f.Name))
		if !ok || value == "" || f.Changed || f.Name == "help" || f.Name == "version" || failed != nil {
			return
		}
		if err := f.Value.Set(value); err != nil {
			failed = fault.Usage.Errorf("environment variable %s=%q: %w", EnvName(f.Name), value, valueError(f, err))
			return
		}
		f.Changed = true
		f.Annotations = map[string][]string{fromEnv: {EnvName(f.Name)}}
	})
	return failed
}

// checkStateDir names the variable at fault, where those who look for a domain below it could
// only name a path. What may not be written to is told by those who write.
func checkStateDir(lookup func(string) (string, bool)) error {
	dir, _ := lookup("RADAR_STATE_DIR")
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fault.Usage.Errorf("environment variable RADAR_STATE_DIR=%q: that is no directory", dir)
	}
	return nil
}

// fromEnv is an annotation of flags that bindEnv has set.
const fromEnv = "radar_env"

// IsTyped says whether a flag is on the command line itself. A variable may be there for
// other commands.
func IsTyped(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f.Changed && f.Annotations[fromEnv] == nil
}
