//go:build js && wasm

// Command wasm puts the playground into a browser: it sets globalThis.cowritePlayground to an object with scene,
// which takes a story file, and play, which takes moves. Both take and give JSON as text, and give {"failed": "..."}
// for what they do not understand.
package main

import (
	"encoding/json"
	"errors"
	"syscall/js"

	"cowrite/lease/playground"
)

func main() {
	js.Global().Set("cowritePlayground", map[string]any{
		"scene": function(playground.Read),
		"play": function(func(moves string) ([]playground.Turn, error) {
			var in []playground.Move
			if err := json.Unmarshal([]byte(moves), &in); err != nil {
				return nil, err
			}
			return playground.Play(in)
		}),
	})
	select {} // the functions live as long as the page
}

// function makes one of JavaScript of one that takes a text.
func function[T any](f func(string) (T, error)) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) != 1 || args[0].Type() != js.TypeString {
			return failed(errors.New("one argument, a text"))
		}
		out, err := f(args[0].String())
		if err != nil {
			return failed(err)
		}
		text, err := json.Marshal(out)
		if err != nil {
			return failed(err)
		}
		return string(text)
	})
}

func failed(err error) string {
	text, err := json.Marshal(map[string]string{"failed": err.Error()})
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(text)
}
