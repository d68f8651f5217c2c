"""Publish orders to orderpost and read their results (package nats-py).

Or HTTP, without NATS (docs/gateway.md): curl --json '{"order_no":"A-1001","timeout":30}' http://127.0.0.1:8080/v1/orders

    python3 orders.py publish ID '{"order_no":"A-1001","timeout":30}'
    python3 orders.py result A-1001
    python3 orders.py await A-1001 ID
"""

import asyncio
import base64
import json
import os
import sys

from subject import token

CREATED = {"accepted": "yes"} | dict.fromkeys(
    ["rejected", "exhausted", "expired", "invalid", "poison", "cancelled"], "no")


class Refused(Exception):
    """The broker answered with an error that another try does not mend."""


async def get_message(nc, stream, query):
    """Read one message at the stream's leader; None where there is none."""
    reply = await nc.request(f"$JS.API.STREAM.MSG.GET.{stream}", json.dumps(query).encode(), timeout=5)
    answer = json.loads(reply.data)
    if error := answer.get("error"):
        if error.get("err_code") == 10037:
            return None
        raise Refused(f"{error['description']} ({error.get('err_code')})")
    return answer["message"]


async def publish(nc, order, id):
    """Submit one order; id names this submission.

    Keep the id with the order before you publish, and use it again when you
    are not sure whether a publish arrived. The answer is "stored", "stored
    before", "settled before", "already pending", "id taken" or "full"; only
    the first three mean that this submission is in orderpost's hands.
    """
    name = token(order["order_no"])
    last = None
    for _ in range(20):
        try:
            if word := await publish_once(nc, name, order, id):
                return word
        except (Refused, asyncio.CancelledError):
            raise
        except Exception as err:  # no answer: nobody knows whether it was stored
            last = err
        await asyncio.sleep(0.25)
    raise last or RuntimeError("refused as pending, although nothing is")


async def publish_once(nc, name, order, id):
    # ensure_ascii=False: numbers and texts go out as they are.
    body = json.dumps(order, ensure_ascii=False, allow_nan=False).encode("utf-8")
    reply = await nc.request(f"orders.new.{name}", body, timeout=5, headers={"Nats-Msg-Id": id})
    ack = json.loads(reply.data)
    if error := ack.get("error"):
        code, text = error.get("err_code"), error["description"]
        if code == 10077 and "maximum messages per subject exceeded" in text:
            # With replicas the place of an order that was just settled can
            # count as taken for a moment: where nothing is pending, publish again.
            waiting = await get_message(nc, "ORDERS", {"last_by_subj": f"orders.new.{name}"})
            return "already pending" if waiting else None
        if code in (10077, 10023, 10047):
            return "full"
        raise Refused(f"{text} ({code})")
    if not ack.get("duplicate"):
        return "stored"
    # The pending message first, then the result, which is written before the message goes.
    if twin := await get_message(nc, "ORDERS", {"seq": ack["seq"]}):
        return "stored before" if twin["subject"] == f"orders.new.{name}" else "id taken"
    result = await read_result(nc, name)
    mine = result and result_of(result, id)
    return "settled before" if mine and settled(mine) else "id taken"


async def read_result(nc, name):
    """Read the last word on the order_no with this token; None where there is none."""
    message = await get_message(nc, "ORDERS_RESULTS", {"last_by_subj": f"orders.results.{name}"})
    return message and json.loads(base64.b64decode(message["data"]))


def settled(result):
    """"retrying" is a note that the order is being worked on, not an outcome."""
    return result["outcome"] != "retrying"


def created(result):
    """Whether the order exists at the API. An unknown word proves nothing."""
    return CREATED.get(result["outcome"], "nobody knows")


def result_of(result, id):
    """Give the result of one submission; None where the last word is about others alone.

    One that is named among the conflicts was refused: the order_no belongs to a
    submission with another body. Until that is accepted,
    nobody knows which of the two exists.
    """
    if any(c["intent_id"] == id for c in result.get("conflicts", [])):
        if result["outcome"] != "accepted":
            return result
        reason = "conflict: the order_no was accepted with another body"
        return {"order_no": result["order_no"], "outcome": "rejected", "intent_id": id, "reason": reason}
    return result if result["intent_id"] == id else None


async def await_outcome(nc, name, id):
    """Wait for the outcome of one submission.

    An outcome with another intent_id belongs to another submission of the same
    order_no, unless it names ours among its conflicts.
    """
    while True:
        result = await read_result(nc, name)
        mine = result and result_of(result, id)
        if mine and settled(mine):
            return mine
        await asyncio.sleep(0.25)


async def main(command, first, second=None):
    import nats

    nc = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), token=os.environ.get("NATS_TOKEN"))
    try:
        if command == "publish":
            print(await publish(nc, json.loads(second), first))
            return
        wait = command == "await"
        result = await (await_outcome(nc, token(first), second) if wait else read_result(nc, token(first)))
        if result is None:
            print("no result")
        else:
            print(f"settled: {settled(result)}, created: {created(result)}, {json.dumps(result)}")
    finally:
        await nc.close()


# How many arguments each command has, its name among them.
ARGUMENTS = {"publish": 3, "result": 2, "await": 3}

if __name__ == "__main__":
    args = sys.argv[1:]
    if not args or len(args) != ARGUMENTS.get(args[0]):
        print("usage: orders.py publish ID BODY | result ORDER_NO | await ORDER_NO ID", file=sys.stderr)
        sys.exit(2)
    try:
        asyncio.run(main(*args))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as err:
        sys.exit(f"{type(err).__name__}: {err}")
