// This example brings an order to orderpost and prints what became of it (docs/client.md):
//
//	go run ./examples/producers/go ID '{"order_no":"A-1001","timeout":30}'
//
// NATS_URL names the broker; without it, that of a worker with the data folder ./data.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"orderpost/client"
)

func main() {
	env, ctx := os.Getenv, context.Background()
	options := []client.Option{client.NKeyFile(env("NATS_NKEY")), client.CAFile(env("NATS_CA")), client.Certificate(env("NATS_CERT"), env("NATS_KEY")), client.InboxPrefix(env("NATS_INBOX_PREFIX"))}
	if env("NATS_URL") == "" {
		options = append(options, client.DataDir("data"))
	}
	if len(os.Args) != 3 {
		log.Fatal("usage: producer ID BODY")
	}
	c, err := client.Connect(ctx, env("NATS_URL"), options...)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := c.Submit(ctx, client.Order{ID: os.Args[1], Body: []byte(os.Args[2])}) // the same ID again stores nothing twice
	if err != nil {
		log.Fatal(err)
	}
	outcome, err := c.Wait(ctx, receipt)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s, created: %s\n", receipt.Status, outcome.Outcome, outcome.Created)
}
