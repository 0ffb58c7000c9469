// SPDX-License-Identifier: Apache-2.0

// Package otlp makes traces of packets and sends them to collectors of OpenTelemetry (OTLP): a packet is a trace, a hop
// a span, a loss an error. What stands for what: docs/export.md.
package otlp
