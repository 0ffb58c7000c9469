// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"
)

// Question is what is asked of the recording in SQL.
type Question struct{ Name, SQL string }

// Questions are all there are.
var Questions = []Question{
	{"percentiles of links by hop", "SELECT * FROM percentiles(hop, link_ns)"},
	{"percentiles of queues by node", "SELECT * FROM percentiles(node, queue_ns)"},
	{"one flow's packets, with paths", "SELECT t, id, path, latency_ns FROM packets WHERE src = '10.0.7.2' AND dst = '10.2.6.2' AND sport = 22620 ORDER BY t"},
	{"flows by path", "SELECT path, flows, packets FROM paths ORDER BY flows DESC"},
	{"losses by place", `SELECT node, port, "at", reason, sum(segs) AS packets FROM losses GROUP BY ALL ORDER BY packets DESC`},
}

// Measure makes a recording and asks it. It returns the seconds of each question in each round, and how long the making took.
func Measure(ctx context.Context, packets, rounds int, run func(context.Context, ...string) ([]byte, error)) (took [][]float64, made time.Duration, err error) {
	dir, err := os.MkdirTemp("", "radar-bench-sql-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	if err := Record(ctx, dir, packets); err != nil {
		return nil, 0, err
	}
	made = time.Since(start)
	took, err = ask(ctx, dir, rounds, run)
	return took, made, err
}

// ask asks each question in each round, by running radar, and returns the seconds that it took.
func ask(ctx context.Context, dir string, rounds int, run func(context.Context, ...string) ([]byte, error)) (took [][]float64, err error) {
	took = make([][]float64, len(Questions))
	for range rounds {
		for i, q := range Questions {
			start := time.Now()
			out, err := run(ctx, "sql", "-r", dir, "-o", "csv", "-c", q.SQL)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], time.Since(start).Seconds())
			// A figure says nothing about a question that is not answered.
			if bytes.Count(out, []byte("\n")) < 2 {
				return nil, fmt.Errorf("%s: no rows", q.Name)
			}
		}
	}
	return took, nil
}
