package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func verdict(t *testing.T, file string) map[string]porcupine.CheckResult {
	t.Helper()
	histories, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]porcupine.CheckResult{}
	for _, one := range histories {
		operations, _ := one.operations()
		verdicts[one.object] = porcupine.CheckOperationsTimeout(models[one.object], operations, time.Minute)
	}
	return verdicts
}

func TestVerdicts(t *testing.T) {
	for file, want := range map[string]map[string]porcupine.CheckResult{
		"testdata/legal.jsonl":          {"register": porcupine.Ok, "lock": porcupine.Ok},
		"testdata/stale-read.jsonl":     {"register": porcupine.Illegal},
		"testdata/lost-write.jsonl":     {"register": porcupine.Illegal},
		"testdata/two-holders.jsonl":    {"lock": porcupine.Illegal},
		"testdata/token-backward.jsonl": {"lock": porcupine.Illegal},
	} {
		got := verdict(t, file)
		for object := range want {
			if got[object] != want[object] {
				t.Errorf("%s: %s is %q, should be %q", file, object, got[object], want[object])
			}
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, one := range []operation{
		{Object: "register", Action: "acquire"},
		{Object: "queue", Action: "read"},
		{Object: "register", Action: "read", ReturnNs: new(int64)},
		{Object: "lock", Action: "acquire", CallNs: 5, ReturnNs: new(int64), Outcome: new(string)},
	} {
		if one.check() == nil {
			t.Errorf("%+v was taken", one)
		}
	}
}
