package main

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// state is a znode as a register with a version, which every write raises by one.
type state struct {
	value   string
	version int
}

// register says what a history of one znode may look like. A write without an answer has its end at
// infinity: where nobody saw its effect, it may as well come last.
var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		places := map[string]int{}
		var parts [][]porcupine.Operation
		for _, operation := range all {
			key := operation.Input.(record).Key
			place, seen := places[key]
			if !seen {
				place = len(parts)
				places[key] = place
				parts = append(parts, nil)
			}
			parts[place] = append(parts[place], operation)
		}
		return parts
	},
	Init: func() any { return state{} },
	Step: func(before, input, _ any) (bool, any) {
		legal, after := step(before.(state), input.(record))
		return legal, after
	},
	DescribeOperation: func(input, _ any) string { return describe(input.(record)) },
	DescribeState:     func(at any) string { return fmt.Sprintf("%+v", at) },
}

// step applies an operation: whether its answer is legal in the state, and the state after it.
func step(before state, operation record) (bool, state) {
	written := state{operation.Value, before.version + 1}
	matches := operation.Op != "cas" || operation.Expected == before.version
	switch {
	case operation.Outcome == "missing":
		return false, before
	case operation.Op == "read":
		return before == state{operation.Value, operation.Version}, before
	case operation.Outcome == "mismatch":
		return !matches, before
	case operation.Outcome == "unknown" && !matches:
		return true, before
	case operation.Outcome == "unknown":
		return true, written
	default:
		return matches && operation.Version == written.version, written
	}
}

func describe(operation record) string {
	switch operation.Op {
	case "read":
		return fmt.Sprintf("read %q v%d", operation.Value, operation.Version)
	case "cas":
		return fmt.Sprintf("cas v%d %q: %s v%d", operation.Expected, operation.Value, operation.Outcome, operation.Version)
	default:
		return fmt.Sprintf("set %q: %s v%d", operation.Value, operation.Outcome, operation.Version)
	}
}

// operations puts a history into porcupine's terms.
func operations(history []record) []porcupine.Operation {
	var all []porcupine.Operation
	for _, one := range history {
		end := one.ReturnNs
		if one.Outcome == "unknown" {
			end = math.MaxInt64
		}
		all = append(all, porcupine.Operation{ClientId: one.Client, Input: one, Call: one.CallNs, Return: end})
	}
	return all
}
