// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// ShowNames makes a domain's names those of tables.
func (k *Kit) ShowNames(d *domain.Domain) {
	if k.Shown == nil || k.Shown.Domain() != d {
		k.Shown = wording.NewNames(d)
	}
}

// NamesOf are the names for the answers of aggregates, in the format that was asked for.
func (k *Kit) NamesOf(names packet.Names) packet.Names {
	if k.Output.Raw() || k.Shown == nil {
		return names
	}
	return k.Shown.Aggregates(names)
}

// DomainFlag is what a command needs to mean this domain.
func DomainFlag(name string) string { return Face.Render(wording.DomainFlag(name)) }
