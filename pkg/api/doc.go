// SPDX-License-Identifier: Apache-2.0

// Package api is radar's HTTP server. docs/design/0020-http-once.md says why there is one, and
// docs/design/0012-outputs.md why its answers are as they are.
//
//   - A Server listens, answers only to its own names, and shares its connections and answers
//     fairly between clients. It knows nothing of what it serves.
//   - A Hub keeps the newest events for listeners of server-sent events.
//   - Reports are the answers of a collector: /metrics, /events and /values.
package api
