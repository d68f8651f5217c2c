"""The subject of an order."""

from urllib.parse import quote_from_bytes


def token(order_no: str) -> str:
    """Encode an order_no as one token of a NATS subject.

    Every byte of its UTF-8 outside A-Z a-z 0-9 _ - becomes %XX, with
    upper-case digits. quote leaves . and ~ alone, whatever it is told. Half a
    surrogate pair raises UnicodeEncodeError, which is a ValueError.
    """
    data = order_no.encode("utf-8")
    if not 1 <= len(data) <= 255:
        raise ValueError("order_no is not a string of 1 to 255 bytes")
    return quote_from_bytes(data, safe="").replace(".", "%2E").replace("~", "%7E")
