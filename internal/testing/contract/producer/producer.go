// Package producer publishes orders and reads their results with the NATS client
// alone. It does what docs/producers.md says, so that the tests can try the page;
// Go programs use package client.
package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
)

// Run does one of these, and writes what became of it:
//
//	publish ID BODY
//	result ORDER_NO
//	await ORDER_NO ID
//
// getenv gives the variables of Connect.
func Run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	if len(args) < 2 || len(args) != arguments[args[0]] {
		return errors.New("usage: publish ID BODY | result ORDER_NO | await ORDER_NO ID")
	}
	nc, err := Connect(getenv)
	if err != nil {
		return err
	}
	defer nc.Close()
	if args[0] != "publish" {
		return showResult(ctx, nc, args, out)
	}
	word, err := Publish(ctx, nc, []byte(args[2]), args[1])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, word)
	return err
}

// arguments is how many each command has, its name among them.
var arguments = map[string]int{"publish": 3, "result": 2, "await": 3}

func showResult(ctx context.Context, nc *nats.Conn, args []string, out io.Writer) error {
	token, err := Token(args[1])
	if err != nil {
		return err
	}
	var r *Result
	if args[0] == "await" {
		r, err = Await(ctx, nc, token, args[2])
	} else {
		r, err = ReadResult(ctx, nc, token)
	}
	if err != nil {
		return err
	}
	if r == nil {
		_, err = fmt.Fprintln(out, "no result")
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "settled: %t, created: %s, %s\n", r.Settled(), r.Created(), data)
	return err
}
