// SPDX-License-Identifier: Apache-2.0

package words

import (
	"regexp"
	"strings"
)

var plainArg = regexp.MustCompile(`^[\w./:@%+,=][\w./:@%+,=-]*$`)

// Arg is an argument as a user types it in a shell: in quotes where it takes them.
func Arg(text string) string {
	if plainArg.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
