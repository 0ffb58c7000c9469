// SPDX-License-Identifier: Apache-2.0

package kit

// style is how a text stands out on a terminal: the parameter of its escape sequence.
type Style string

const (
	Bold   Style = "1"
	Red    Style = "1;31"
	Yellow Style = "33"
)

// Paint returns the text in a style, or as it is where colours are not wanted.
func (s Style) Paint(colored bool, text string) string {
	if !colored || text == "" {
		return text
	}
	return Own("\x1b["+string(s)+"m") + text + Own("\x1b[0m")
}

// Colored says whether standard output is for eyes: a terminal that can show colours,
// whose user does not object (https://no-color.org).
func (k *Kit) Colored() bool {
	if v, ok := k.LookupEnv("NO_COLOR"); ok && v != "" {
		return false
	}
	term, _ := k.LookupEnv("TERM")
	return term != "" && term != "dumb" && IsTerminal(k.Stdout)
}
