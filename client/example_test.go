package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"orderpost/client"
)

// ctx bounds an example.
var ctx = context.Background()

// connect connects to the broker of the worker on this machine.
func connect() *client.Client {
	c, err := client.Connect(ctx, "", client.DataDir(dataDir))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func Example() {
	c, err := client.Connect(ctx, "", client.DataDir(dataDir)) // or "nats://…"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Submit(ctx, client.Order{ID: "shop-17", Body: []byte(`{"order_no": "A-1001", "timeout": 30, "amount": "12.50"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.OrderNo, r.Status)
	o, err := c.Wait(ctx, r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Outcome, "created:", o.Created)
	// Output:
	// A-1001 stored
	// accepted created: yes
}

// With a NATS cluster, an nkey names the program's role, and certificates secure the way.
func ExampleConnect() {
	_, err := client.Connect(ctx, "tls://nats.example:4222",
		client.NKeyFile("missing.seed"), client.CAFile("ca.pem"), client.Certificate("shop.pem", "shop.key"),
		client.InboxPrefix("_INBOX_producer"), client.Name("shop"))
	fmt.Println(err != nil)
	// Output: true
}

// What a caller does about each error.
func ExampleClient_Submit() {
	c := connect()
	defer c.Close()
	submit := func(o client.Order) {
		r, err := c.Submit(ctx, o)
		var invalid *client.InvalidError
		var unconfirmed *client.UnconfirmedError
		switch {
		case err == nil:
			fmt.Println(r.OrderNo, r.Status) // orderpost answers for it
		case errors.As(err, &invalid):
			fmt.Printf("%s: %s; %s\n", invalid.Where, invalid.Seen, invalid.Do) // correct it
		case errors.Is(err, client.ErrIDUsed):
			fmt.Println("another id") // or find out who used it
		case errors.Is(err, client.ErrPending):
			fmt.Println("wait") // for the other submission's outcome
		case errors.As(err, &unconfirmed), errors.Is(err, client.ErrFull), errors.Is(err, client.ErrUnavailable):
			fmt.Println("again, with the same id") // after a while
		default:
			fmt.Println(err)
		}
	}
	submit(client.Order{ID: "s1", Body: []byte(`{"order_no": "S-1", "timeout": 30}`)})
	submit(client.Order{ID: "s1", Body: []byte(`{"order_no": "S-1", "timeout": 30}`)})
	submit(client.Order{ID: "s1", Body: []byte(`{"order_no": "S-1", "timeout": 60}`)})
	submit(client.Order{ID: "s2", Body: []byte(`{"order_no": "S-2", "timeout": "30"}`)})
	// Output:
	// S-1 stored
	// S-1 same
	// another id
	// timeout: "30" is not an integer; send an integer number without quotes
}

func ExampleClient_SubmitAll() {
	c := connect()
	defer c.Close()
	orders := []client.Order{
		{ID: "batch-7:1", Body: []byte(`{"order_no": "B-1", "timeout": 30}`)},
		{ID: "batch-7:2", Body: []byte(`{"order_no": "B-2"}`)},
		{ID: "batch-7:3", Body: []byte(`{"order_no": "B-3", "timeout": 30}`)},
	}
	for r, err := range c.SubmitAll(ctx, slices.Values(orders)) {
		fmt.Println(r.ID, r.Status, err)
	}
	// Output:
	// batch-7:1 stored <nil>
	// batch-7:2  timeout: absent but required; add the field
	// batch-7:3 stored <nil>
}

// A second body for an order_no that was accepted is a conflict: it is told apart from the
// first.
func ExampleClient_Wait() {
	c := connect()
	defer c.Close()
	for i, body := range []string{`{"order_no": "W-1", "timeout": 30, "qty": "1"}`, `{"order_no": "W-1", "timeout": 30, "qty": "2"}`} {
		r, err := c.Submit(ctx, client.Order{ID: fmt.Sprintf("w%d", i+1), Body: []byte(body)})
		if err != nil {
			log.Fatal(err)
		}
		o, err := c.Wait(ctx, r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.ID, o.Outcome, o.Reason)
	}
	// Output:
	// w1 accepted accepted by status 200
	// w2 rejected conflict: the order_no was accepted with another body
}

func ExampleClient_Outcome() {
	c := connect()
	defer c.Close()
	r, err := c.Submit(ctx, client.Order{Body: []byte(`{"order_no": "O-1", "timeout": 30}`), NotBefore: time.Now().Add(time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	o, err := c.Outcome(ctx, r)
	fmt.Println(o.Pending, o.Created, err)
	_, err = c.Outcome(ctx, client.Receipt{OrderNo: "O-2", ID: "nobody's"})
	fmt.Println(errors.Is(err, client.ErrUnknownOrder))
	// Output:
	// true unknown <nil>
	// true
}

// A program that keeps the position with what it did about the outcome misses none.
func ExampleClient_Outcomes() {
	c := connect()
	defer c.Close()
	r, err := c.Submit(ctx, client.Order{Body: []byte(`{"order_no": "F-1", "timeout": 30}`)})
	if err != nil {
		log.Fatal(err)
	}
	var position uint64 // kept by the program
	for o, err := range c.Outcomes(ctx, client.After(position)) {
		if err != nil {
			log.Fatal(err)
		}
		position = o.Position
		if o.ID == r.ID {
			fmt.Println(o.OrderNo, o.Outcome)
			break
		}
	}
	// Output: F-1 accepted
}

func ExampleClient_Cancel() {
	c := connect()
	defer c.Close()
	r, err := c.Submit(ctx, client.Order{Body: []byte(`{"order_no": "C-1", "timeout": 30}`), NotBefore: time.Now().Add(time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	o, err := c.Cancel(ctx, r)
	fmt.Println(o.Outcome, o.Created, err)
	// Output: cancelled no <nil>
}
