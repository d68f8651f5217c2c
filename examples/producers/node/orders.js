"use strict";

const { token } = require("./subject.js");

const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

class Refused extends Error {}

// getMessage reads one message at the stream's leader; null where there is none.
async function getMessage(nc, stream, query) {
  const reply = await nc.request(`$JS.API.STREAM.MSG.GET.${stream}`, JSON.stringify(query), { timeout: 5000 });
  const answer = reply.json();
  if (answer.error) {
    if (answer.error.err_code === 10037) return null;
    throw new Refused(`${answer.error.description} (${answer.error.err_code})`);
  }
  return answer.message;
}

// publish submits one order. id names this submission: keep it with the order
// before you publish, and use it again when you are not sure whether a publish
// arrived. It returns "stored", "stored before", "settled before", "already
// pending", "id taken" or "full"; only the first three mean that this
// submission is in orderpost's hands.
async function publish(nc, order, id) {
  let last;
  for (let tries = 0; tries < 20; tries++) {
    try {
      const word = await publishOnce(nc, order, id);
      if (word) return word;
      last = new Error("refused as pending, although nothing is");
    } catch (err) {
      if (err instanceof Refused || err instanceof RangeError || err instanceof URIError) throw err;
      last = err; // no answer: nobody knows whether it was stored
    }
    await pause(250);
  }
  throw last;
}

async function publishOnce(nc, order, id) {
  const { headers } = require("@nats-io/transport-node");
  const name = token(order.order_no);
  const h = headers();
  h.set("Nats-Msg-Id", id);
  const reply = await nc.request(`orders.new.${name}`, JSON.stringify(order), { headers: h, timeout: 5000 });
  const ack = reply.json();
  if (ack.error) {
    const { err_code: code, description } = ack.error;
    if (code === 10077 && description.includes("maximum messages per subject exceeded")) {
      // With replicas the place of an order that was just settled can count as
      // taken for a moment: where nothing is pending, publish again.
      return (await getMessage(nc, "ORDERS", { last_by_subj: `orders.new.${name}` })) ? "already pending" : null;
    }
    if (code === 10077 || code === 10023 || code === 10047) return "full";
    throw new Refused(`${description} (${code})`);
  }
  if (!ack.duplicate) return "stored";
  // The pending message first, then the result, which is written before the message goes.
  const twin = await getMessage(nc, "ORDERS", { seq: ack.seq });
  if (twin) return twin.subject === `orders.new.${name}` ? "stored before" : "id taken";
  const result = await readResult(nc, order.order_no);
  const mine = result && resultOf(result, id);
  return mine && settled(mine) ? "settled before" : "id taken";
}

// readResult reads the last word on an order_no; null where there is none.
async function readResult(nc, orderNo) {
  const message = await getMessage(nc, "ORDERS_RESULTS", { last_by_subj: `orders.results.${token(orderNo)}` });
  return message && JSON.parse(Buffer.from(message.data, "base64").toString("utf8"));
}

// settled: "retrying" is a note that the order is being worked on, not an outcome.
function settled(result) {
  return result.outcome !== "retrying";
}

// created says whether the order exists at the API. A word that this program
// does not know proves nothing.
function created(result) {
  if (result.outcome === "accepted") return "yes";
  const no = ["rejected", "exhausted", "expired", "invalid", "poison", "cancelled"];
  return no.includes(result.outcome) ? "no" : "nobody knows";
}

// resultOf gives the result of one submission; null where the last word is
// about other submissions alone. One that is named among the conflicts was
// refused: the order_no belongs to a submission with another body. Until that is accepted, nobody knows which of the two exists.
function resultOf(result, id) {
  if ((result.conflicts || []).some((c) => c.intent_id === id)) {
    if (result.outcome !== "accepted") return result;
    const reason = "conflict: the order_no was accepted with another body";
    return { order_no: result.order_no, outcome: "rejected", intent_id: id, reason };
  }
  return result.intent_id === id ? result : null;
}

// awaitOutcome waits for the outcome of one submission. An outcome with another
// intent_id belongs to another submission of the same order_no, unless it names
// ours among its conflicts.
async function awaitOutcome(nc, orderNo, id) {
  for (;;) {
    const result = await readResult(nc, orderNo);
    const mine = result && resultOf(result, id);
    if (mine && settled(mine)) return mine;
    await pause(250);
  }
}

module.exports = { publish, readResult, resultOf, awaitOutcome, settled, created };
