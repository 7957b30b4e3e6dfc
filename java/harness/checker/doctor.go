package main

import "slices"

// doctored returns copies of a history, each with one lie that no register can tell. A checker that
// accepts one of them checks nothing. Empty if the history is too poor for a lie.
func doctored(history []record) map[string][]record {
	lies := map[string][]record{}
	for place, one := range history {
		if one.Outcome != "ok" {
			continue
		}
		if one.Op == "read" && one.Version >= 2 && lies["an acknowledged write is lost"] == nil {
			if old, found := overwritten(history, one); found {
				lie := slices.Clone(history)
				lie[place].Value, lie[place].Version = old.Value, old.Version
				lies["an acknowledged write is lost"] = lie
			}
		}
		if one.Op != "read" && lies["two leaders acknowledge the same version"] == nil {
			twin := one
			twin.Value += " of another leader"
			lies["two leaders acknowledge the same version"] = append(slices.Clone(history), twin)
		}
	}
	return lies
}

// overwritten finds a write of the read's key that another acknowledged write had replaced before the
// read began: a read of it would be stale.
func overwritten(history []record, read record) (record, bool) {
	replaced := map[int]bool{}
	for _, newer := range history {
		if acknowledgedBefore(newer, read) {
			replaced[newer.Version-1] = true
		}
	}
	for _, old := range history {
		if acknowledgedBefore(old, read) && replaced[old.Version] {
			return old, true
		}
	}
	return record{}, false
}

func acknowledgedBefore(write, read record) bool {
	return write.Key == read.Key && write.Op != "read" && write.Outcome == "ok" && write.ReturnNs < read.CallNs
}
