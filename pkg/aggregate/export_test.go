// SPDX-License-Identifier: Apache-2.0

package aggregate

// SettleAll puts all arrivals in order.
func (a *Aggregates) SettleAll() { a.settleAll() }

// Encode makes a snapshot.
func (a *Aggregates) Encode() []byte { return a.encode(1, nil) }

// Decode reads one of Encode's.
func Decode(b []byte) error {
	_, _, err := decode(b, 1)
	return err
}

// Copy is what a snapshot of a gives.
func (a *Aggregates) Copy() (*Aggregates, error) {
	b, _, err := decode(a.Encode(), 1)
	return b, err
}

const MaxWaiting = maxWaiting

// Room is how many arrivals a has memory for.
func (a *Aggregates) Room() int { return cap(a.waiting) + cap(a.spareWaiting) + cap(a.list) }
