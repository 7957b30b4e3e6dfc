package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// record is one operation as the harness writes it, a JSON object per line.
type record struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	// Op is "set" (whatever the version), "cas" (only at Expected) or "read".
	Op string `json:"op"`
	// Value is what a write wrote, or what a read saw.
	Value string `json:"value"`
	// Expected is the version that a cas wanted.
	Expected int `json:"expected"`
	// Version is the znode's version that the answer told: after a write, or at a read.
	Version int `json:"version"`
	// Outcome is "ok", "mismatch" (a cas that was refused), "missing" (the znode was not there, though
	// it was created before the run), or "unknown" (no answer: it may or may not have happened).
	Outcome  string `json:"outcome"`
	CallNs   int64  `json:"call_ns"`
	ReturnNs int64  `json:"return_ns"`
}

var known = map[string]map[string]bool{
	"set":  {"ok": true, "missing": true, "unknown": true},
	"cas":  {"ok": true, "mismatch": true, "missing": true, "unknown": true},
	"read": {"ok": true, "missing": true},
}

// readHistory reads one record per line, and refuses what it does not know.
func readHistory(input io.Reader) ([]record, error) {
	var history []record
	lines := bufio.NewScanner(input)
	for number := 1; lines.Scan(); number++ {
		var one record
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if !known[one.Op][one.Outcome] {
			return nil, fmt.Errorf("line %d: operation %q with outcome %q", number, one.Op, one.Outcome)
		}
		if one.Outcome != "unknown" && one.ReturnNs < one.CallNs {
			return nil, fmt.Errorf("line %d: returned before it was called", number)
		}
		history = append(history, one)
	}
	return history, lines.Err()
}
