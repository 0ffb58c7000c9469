// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestSteer: what is steered by the API is what the command line has, and devices get it; errors name the field.
func TestSteer(t *testing.T) {
	w := clitest.NewWorld(t)
	s := serve(t, "--listen", "0")
	base := "/api/v1/domains/" + w.Domain + "/int"
	intWords := func(args ...string) string {
		w.Helper()
		stdout, stderr, code := clitest.Radar(t, append([]string{"int"}, args...)...)
		if code != kit.ExitOK {
			t.Fatalf("radar int %v: %d %s", args, code, stderr)
		}
		return stdout
	}
	intWords("topology", "set", "--lab", w.Lab.Name, "--device", "r1")
	t.Cleanup(func() { clitest.Radar(t, "int", "stop", "--force") })

	const web = `{"name":"web","slice":{"proto":"tcp","dport":"80"},"sample":10,"lifetime":"1h"}`
	var plan []struct {
		Device string
		Lines  []string
	}
	s.steer(http.StatusOK, "POST", base+"/plan", `{"add":{"name":"web","slice":{"proto":"tcp","dport":["80"]},"sample":10}}`, &plan)
	if len(plan) != 1 || plan[0].Device != "r1" || len(plan[0].Lines) == 0 {
		t.Errorf("plan: %+v", plan)
	}
	var none []any
	if s.get(base+"/intents", &none); len(none) > 0 {
		t.Errorf("a plan has added %v", none)
	}
	s.steer(http.StatusCreated, "POST", base+"/intents", web, nil)
	s.steer(http.StatusConflict, "POST", base+"/intents", web, nil)
	for path, field := range map[string]string{
		`{"name":"a","sample":"x"}`:                    "body.sample",
		`{"name":"a","slice":{"dport":["80-70"]}}`:     "body.slice.dport",
		`{"name":"a","states":["hop_latency","mood"]}`: "body.states",
		`{"name":"a","moods":1}`:                       "body.moods",
		`{"name":""}`:                                  "body.name",
	} {
		var problem struct{ Errors []struct{ Location string } }
		s.steer(http.StatusUnprocessableEntity, "POST", base+"/intents", path, &problem)
		if len(problem.Errors) == 0 || !strings.HasPrefix(problem.Errors[0].Location, field) {
			t.Errorf("%s: %+v, want %s", path, problem, field)
		}
	}
	s.steer(http.StatusUnprocessableEntity, "PUT", base+"/intents/other", web, nil)
	var got map[string]any
	s.get(base+"/intents/web", &got)
	var listed []map[string]any
	if err := json.Unmarshal([]byte(intWords("intent", "list", "-o", "json")), &listed); err != nil {
		listed = nil
		for dec := json.NewDecoder(strings.NewReader(intWords("intent", "list", "-o", "json"))); dec.More(); {
			var row map[string]any
			if err := dec.Decode(&row); err != nil {
				t.Fatal(err)
			}
			listed = append(listed, row)
		}
	}
	if len(listed) != 1 || listed[0]["name"] != "web" || got["sample"] != 10.0 || got["expires"] == nil || fmt.Sprint(got["slice"]) != fmt.Sprint(map[string]any{"dport": []any{"80"}, "proto": "tcp"}) {
		t.Errorf("API %v, command line %v", got, listed)
	}

	var service struct {
		Running             bool
		Applied, Generation float64
	}
	s.steer(http.StatusOK, "POST", base+"/service", `{"running":true}`, &service)
	nstest.WaitFor(t, "the intent to be on the device", func() bool {
		var rows []struct{ Status struct{ State string } }
		s.get(base+"/intents", &rows)
		var devices []struct{ State string }
		s.get(base+"/devices", &devices)
		return rows[0].Status.State == "applied" && devices[0].State == "ready"
	})
	var events []map[string]any
	if s.get(base+"/events", &events); len(events) == 0 {
		t.Error("no events")
	}
	s.steer(http.StatusNoContent, "DELETE", base+"/intents/web", "", nil)
	s.steer(http.StatusNotFound, "DELETE", base+"/intents/web", "", nil)
	var list []any
	s.steer(http.StatusOK, "PUT", base+"/intents", "["+web+"]", &list)
	if len(list) != 1 {
		t.Errorf("replaced by %v", list)
	}
	s.steer(http.StatusOK, "POST", base+"/service", `{"running":false}`, &service)
	if service.Running {
		t.Errorf("service %+v", service)
	}
	var config, back map[string]any
	s.get(base+"/config", &config)
	config["mark"] = "port=5005"
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	s.steer(http.StatusOK, "PUT", base+"/config", string(text), &back)
	if diff := cmp.Diff(config, back); diff != "" || !strings.Contains(intWords("config", "get", "-o", "json"), "port=5005") {
		t.Errorf("config: %s", diff)
	}
	config["quote"] = float64(64)
	s.steer(http.StatusOK, "PATCH", base+"/config", `{"quote":64}`, &back)
	if diff := cmp.Diff(config, back); diff != "" {
		t.Errorf("a part of the config: %s", diff)
	}
	s.steer(http.StatusUnprocessableEntity, "PATCH", base+"/config", `{"quote":"many"}`, nil)
}
