package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines: client key op value expected version outcome call return.
const good = `{"client":1,"key":"a","op":"set","value":"x","version":1,"outcome":"ok","call_ns":0,"return_ns":10}
{"client":2,"key":"a","op":"cas","value":"y","expected":1,"version":2,"outcome":"ok","call_ns":5,"return_ns":20}
{"client":1,"key":"a","op":"cas","value":"z","expected":1,"outcome":"mismatch","call_ns":25,"return_ns":30}
{"client":2,"key":"a","op":"set","value":"u","outcome":"unknown","call_ns":31,"return_ns":0}
{"client":1,"key":"a","op":"read","value":"y","version":2,"outcome":"ok","call_ns":32,"return_ns":40}
`

func verdict(t *testing.T, text string) (bool, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return check(path)
}

func TestAcceptsAnUnknownWriteThatNobodySaw(t *testing.T) {
	if violated, err := verdict(t, good); violated || err != nil {
		t.Fatal(violated, err)
	}
}

func TestAcceptsAnUnknownWriteThatTookEffectLate(t *testing.T) {
	late := good + `{"client":3,"key":"a","op":"read","value":"u","version":3,"outcome":"ok","call_ns":50,"return_ns":60}`
	if violated, err := verdict(t, late); violated || err != nil {
		t.Fatal(violated, err)
	}
}

func TestRejects(t *testing.T) {
	cases := map[string]string{
		"a lost acknowledged write": strings.Replace(good, `"read","value":"y","version":2`, `"read","value":"x","version":1`, 1),
		"a value never written":     strings.Replace(good, `"read","value":"y"`, `"read","value":"q"`, 1),
		"a refusal without cause":   strings.Replace(good, `"z","expected":1`, `"z","expected":2`, 1),
		"a lost znode":              good + `{"client":3,"key":"a","op":"read","outcome":"missing","call_ns":50,"return_ns":60}`,
		"an unknown write undone": good + `{"client":3,"key":"a","op":"read","value":"u","version":3,"outcome":"ok","call_ns":50,"return_ns":60}
{"client":3,"key":"a","op":"read","value":"y","version":2,"outcome":"ok","call_ns":70,"return_ns":80}`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if violated, err := verdict(t, text); !violated || err != nil {
				t.Fatal(violated, err)
			}
		})
	}
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, text := range map[string]string{
		"an operation":     strings.Replace(good, `"op":"set"`, `"op":"add"`, 1),
		"no JSON":          "nonsense",
		"a negative time":  strings.Replace(good, `"return_ns":40`, `"return_ns":4`, 1),
		"an empty history": "",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := verdict(t, text); err == nil {
				t.Fatal("accepted")
			}
		})
	}
}
