// Judges recorded histories of registers and locks with porcupine, a linearizability checker that knows nothing of
// Phalanx: a second opinion on what the own checker says (R7, L1).
//
//	linearizability [-timeout 20s] FILE-OR-DIRECTORY...
//
// A history is a file of JSON lines, one operation each, as `phalanx sim --histories DIRECTORY` writes them. Exit code
// 0: all histories can be explained. 1: one cannot. 2: wrong usage, a file that cannot be read, or nothing to judge.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type count struct{ histories, operations, pending, illegal, unknown int }

func main() {
	timeout := flag.Duration("timeout", 20*time.Second, "the longest search for one register or lock")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: linearizability [-timeout 20s] FILE-OR-DIRECTORY...")
		flag.PrintDefaults()
	}
	flag.Parse()
	files, err := find(flag.Args())
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no histories: name files or directories of *.jsonl")
	}
	fail(err)
	counts := map[string]*count{"register": {}, "lock": {}}
	for _, file := range files {
		histories, err := read(file)
		fail(err)
		for _, one := range histories {
			judge(file, one, *timeout, counts[one.object])
		}
	}
	total := report(counts)
	switch {
	case total.illegal > 0:
		os.Exit(1)
	case total.operations == 0:
		fail(fmt.Errorf("%d files hold no operation on a register or a lock", len(files)))
	}
}

func judge(file string, one history, timeout time.Duration, sum *count) {
	operations, pending := one.operations()
	sum.histories++
	sum.operations += len(operations)
	sum.pending += pending
	switch porcupine.CheckOperationsTimeout(models[one.object], operations, timeout) {
	case porcupine.Illegal:
		sum.illegal++
		fmt.Printf("ILLEGAL: no order explains %s %d of group %d in %s\n", one.object, one.number, one.group, file)
	case porcupine.Unknown:
		sum.unknown++
		fmt.Printf("UNKNOWN: %s %d of group %d in %s took longer than %s\n", one.object, one.number, one.group, file, timeout)
	}
}

func report(counts map[string]*count) count {
	objects := make([]string, 0, len(counts))
	for object := range counts {
		objects = append(objects, object)
	}
	sort.Strings(objects)
	var total count
	fmt.Printf("%-10s %10s %12s %12s %8s %8s\n", "", "histories", "operations", "of them open", "illegal", "unknown")
	for _, object := range objects {
		c := counts[object]
		fmt.Printf("%-10s %10d %12d %12d %8d %8d\n", object, c.histories, c.operations, c.pending, c.illegal, c.unknown)
		total.operations += c.operations
		total.illegal += c.illegal
	}
	return total
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		os.Exit(2)
	}
}
