"use strict";

// token encodes an order_no as one token of a NATS subject: every byte of its
// UTF-8 outside A-Z a-z 0-9 _ - becomes %XX, with upper-case digits.
// encodeURIComponent does most of it, leaves . ! ~ * ' ( ) alone, and throws on
// half a surrogate pair.
function token(orderNo) {
  if (typeof orderNo !== "string") throw new TypeError("order_no is not a string");
  const hex = (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase();
  const encoded = encodeURIComponent(orderNo).replace(/[.!~*'()]/g, hex);
  const bytes = encoded.replace(/%[0-9A-F]{2}/g, "x").length;
  if (bytes < 1 || bytes > 255) throw new RangeError("order_no is not a string of 1 to 255 bytes");
  return encoded;
}

module.exports = { token };
