"use strict";

// Or HTTP, without NATS (docs/gateway.md): curl --json '{"order_no":"A-1001","timeout":30}' http://127.0.0.1:8080/v1/orders
//
// node main.js publish ID '{"order_no":"A-1001","timeout":30}'
// node main.js result A-1001
// node main.js await A-1001 ID
const { publish, readResult, awaitOutcome, settled, created } = require("./orders.js");

// How many arguments each command has, its name among them.
const argumentsOf = { publish: 3, result: 2, await: 3 };

async function main(args) {
  const [command, first, second] = args;
  if (args.length < 1 || args.length !== argumentsOf[command]) {
    console.error("usage: main.js publish ID BODY | result ORDER_NO | await ORDER_NO ID");
    process.exitCode = 2;
    return;
  }
  const { connect } = require("@nats-io/transport-node"); // npm install
  const { NATS_URL, NATS_TOKEN } = process.env;
  const nc = await connect({ servers: NATS_URL || "127.0.0.1:4222", token: NATS_TOKEN });
  try {
    if (command === "publish") {
      console.log(await publish(nc, JSON.parse(second), first));
      return;
    }
    const result = await (command === "await" ? awaitOutcome(nc, first, second) : readResult(nc, first));
    if (!result) console.log("no result");
    else console.log(`settled: ${settled(result)}, created: ${created(result)}, ${JSON.stringify(result)}`);
  } finally {
    await nc.close();
  }
}

main(process.argv.slice(2)).catch((err) => {
  console.error(err.message);
  process.exitCode = 1;
});
