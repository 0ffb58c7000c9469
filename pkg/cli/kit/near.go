// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/fault"
)

// didYouMean is ", did you mean ...?", "" if nothing is near.
func didYouMean(word string, words []string, prefix string) string {
	if near := fault.Nearest(word, words); near != "" {
		return fmt.Sprintf(", did you mean %q?", prefix+near)
	}
	return ""
}

// nearFlag adds to an error about an unknown flag the one that may be meant.
func nearFlag(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := didYouMean(name, names, "--"); near != "" {
		return fmt.Errorf("%w%s", err, near)
	}
	return err
}

// FlagError is an error about a flag for users: it says which flag may be meant, or what the flag takes.
func FlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if cause := valueError(invalid.GetFlag(), invalid.Unwrap()); cause != invalid.Unwrap() {
			return fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", invalid.GetValue(), invalid.GetFlag().Name, cause)
		}
	}
	return nearFlag(cmd, err)
}

// takes is what flags of Go's own types take.
var takes = map[string]string{
	"int": "a whole number", "uint8": "a whole number, 0 to 255", "uint16": "a whole number, 0 to 65535", "uint32": "a whole number, 0 to 4294967295",
	"uint": "a whole number, 0 or more", "uint64": "a whole number, 0 or more", "intSlice": "whole numbers, separated by commas",
	"uintSlice": "whole numbers, 0 or more, separated by commas", "float64": "a number, such as 0.5", "bool": "true or false",
	"duration": "a time with its unit, such as 500ms, 10s or 5m",
}

// valueError says what a flag takes, in place of the words that Go has for it.
func valueError(f *pflag.Flag, err error) error {
	number, is := errors.AsType[*strconv.NumError](err)
	what := takes[f.Value.Type()]
	switch {
	case what == "" || !is && !strings.HasPrefix(err.Error(), "time: "):
		return err
	case is && errors.Is(err, strconv.ErrRange) && strings.HasPrefix(number.Num, "-"):
		return fmt.Errorf("too small: use %s", what)
	case is && errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("too large: use %s", what)
	}
	return fmt.Errorf("use %s", what)
}
