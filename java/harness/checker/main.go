// Checks a recorded history of znodes for linearizability with porcupine.
//
// Usage: checker HISTORY.jsonl
//
// Exit status: 0 linearizable, 1 not decided or bad input, 2 not linearizable. Before it judges, it
// doctors the history and makes sure that the lies are found out.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	exitError     = 1
	exitViolation = 2
	timeLimit     = 5 * time.Minute
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checker HISTORY.jsonl")
		os.Exit(exitError)
	}
	violated, err := check(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(exitError)
	}
	if violated {
		os.Exit(exitViolation)
	}
}

func check(path string) (violated bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	history, err := readHistory(file)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	result, info := porcupine.CheckOperationsVerbose(register, operations(history), timeLimit)
	switch result {
	case porcupine.Illegal:
		fmt.Printf("NOT linearizable: %s\n", summary(history))
		picture := path + ".html"
		if err := porcupine.VisualizePath(register, info, picture); err != nil {
			return true, err
		}
		fmt.Printf("the longest linearizable parts: %s\n", picture)
		return true, nil
	case porcupine.Unknown:
		return false, fmt.Errorf("not decided within %s: %s", timeLimit, summary(history))
	}
	if err := lies(history); err != nil {
		return false, err
	}
	fmt.Printf("linearizable: %s\n", summary(history))
	return false, nil
}

// lies makes sure that this history, doctored, is rejected.
func lies(history []record) error {
	all := doctored(history)
	if len(all) < 2 {
		return fmt.Errorf("too little happened to judge by: %s", summary(history))
	}
	for lie, told := range all {
		if porcupine.CheckOperationsTimeout(register, operations(told), timeLimit) != porcupine.Illegal {
			return fmt.Errorf("the check accepts a doctored history (%s): it is worth nothing", lie)
		}
		fmt.Printf("doctored, rejected: %s\n", lie)
	}
	return nil
}

func summary(history []record) string {
	counts := map[string]int{}
	keys := map[string]bool{}
	for _, one := range history {
		counts[one.Outcome]++
		keys[one.Key] = true
	}
	return fmt.Sprintf("%d operations on %d znodes: %d ok, %d refused, %d unknown, %d missing",
		len(history), len(keys), counts["ok"], counts["mismatch"], counts["unknown"], counts["missing"])
}
