// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// TestOpenAPI: docs/openapi.json is the description that the code makes.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/openapi.json"
	made, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, made, "", "  "); err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the code says: go test ./pkg/api/v1 -run TestOpenAPI -update", path)
	}
}
