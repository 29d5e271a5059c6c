package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"

	"github.com/anishathalye/porcupine"
)

// One operation as a line tells it. Processes are incarnations; times are virtual nanoseconds.
type operation struct {
	Group    uint32  `json:"group"`
	Object   string  `json:"object"`
	Number   uint32  `json:"number"`
	Process  uint64  `json:"process"`
	Action   string  `json:"action"`
	Value    uint64  `json:"value"`    // written; or the token given back
	Expected uint64  `json:"expected"` // by a compare-and-swap
	CallNs   int64   `json:"call_ns"`
	ReturnNs *int64  `json:"return_ns"` // null: it may have happened, or not
	Outcome  *string `json:"outcome"`
	Told     uint64  `json:"told"`   // the value read, or the token of a lock
	Holder   uint64  `json:"holder"` // of a lock that was refused
}

// All operations on one object of one group.
type history struct {
	object string
	group  uint32
	number uint32
	all    []operation
}

// The operations that matter, and how many of them wait for an answer for ever.
func (h history) operations() (operations []porcupine.Operation, pending int) {
	for _, one := range h.all {
		end := int64(math.MaxInt64)
		if one.ReturnNs != nil {
			end = *one.ReturnNs
		} else if one.Action == "read" {
			continue // without an answer it tells nothing
		} else if one.Action != "leave" {
			pending++
		}
		operations = append(operations, porcupine.Operation{Input: one, Call: one.CallNs, Output: one, Return: end})
	}
	return operations, pending
}

// The files named, and the histories in the directories named.
func find(names []string) (files []string, err error) {
	for _, name := range names {
		about, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !about.IsDir() {
			files = append(files, name)
			continue
		}
		found, err := filepath.Glob(filepath.Join(name, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	sort.Strings(files)
	return files, nil
}

// A file's operations, by object. Those on objects without a model are left out.
func read(file string) ([]history, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	type name struct {
		object        string
		group, number uint32
	}
	byName := map[name]*history{}
	var names []name
	lines := bufio.NewScanner(opened)
	lines.Buffer(nil, 1<<20)
	for at := 1; lines.Scan(); at++ {
		var one operation
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, at, err)
		}
		if err := one.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, at, err)
		}
		if _, known := models[one.Object]; !known {
			continue
		}
		key := name{one.Object, one.Group, one.Number}
		if byName[key] == nil {
			byName[key] = &history{object: one.Object, group: one.Group, number: one.Number}
			names = append(names, key)
		}
		byName[key].all = append(byName[key].all, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	histories := make([]history, 0, len(names))
	for _, key := range names {
		histories = append(histories, *byName[key])
	}
	return histories, nil
}

func (one operation) check() error {
	known := map[string]string{
		"read": "register", "write": "register", "cas": "register",
		"acquire": "lock", "release": "lock", "leave": "lock",
		"transfer": "bank",
	}
	switch {
	case known[one.Action] == "" || known[one.Action] != one.Object:
		return fmt.Errorf("no action %q on a %q", one.Action, one.Object)
	case (one.ReturnNs == nil) != (one.Outcome == nil):
		return fmt.Errorf("an answer has a time and an outcome")
	case one.ReturnNs != nil && *one.ReturnNs < one.CallNs:
		return fmt.Errorf("answered before it was asked")
	}
	return nil
}
