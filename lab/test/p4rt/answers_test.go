// SPDX-License-Identifier: Apache-2.0

package p4rt_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/vnetradar/radar/lab/test/p4rt"
	"github.com/vnetradar/radar/p4"
)

// TestAnswers: a switch of tests answers as a BMv2 does. The words in which it refuses something are its own.
func TestAnswers(t *testing.T) {
	text, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []p4rt.Answer
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	s := new(p4rt.Server).Start(t)
	conn, err := grpc.NewClient("passthrough:///"+s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := p4rt.Ask(t.Context(), conn, 1, p4.Info, p4.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(recorded) {
		t.Fatalf("%d answers, %d were recorded", len(got), len(recorded))
	}
	for i := range got {
		g, r := got[i], recorded[i]
		if g.Stricter && g.Code != r.Code {
			continue
		}
		g.Message, r.Message, g.Why, r.Why = "", "", nil, nil
		if d := cmp.Diff(r, g); d != "" {
			t.Errorf("%s (-BMv2 +test): %s", g.Question, d)
		}
	}
}
