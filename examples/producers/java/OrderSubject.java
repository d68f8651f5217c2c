import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** The subject of an order. */
public final class OrderSubject {
    private OrderSubject() {}

    /**
     * Encodes an order_no as one token of a NATS subject: every byte of its UTF-8 outside A-Z a-z 0-9 _ - becomes
     * %XX, with upper-case digits. String.getBytes would write a question mark for half a surrogate pair; this throws.
     */
    public static String token(String orderNo) {
        ByteBuffer bytes;
        try {
            bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(orderNo));
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("order_no holds half a surrogate pair", e);
        }
        if (bytes.remaining() < 1 || bytes.remaining() > 255) {
            throw new IllegalArgumentException("order_no is not a string of 1 to 255 bytes");
        }
        StringBuilder token = new StringBuilder();
        while (bytes.hasRemaining()) {
            int c = bytes.get() & 0xFF;
            if (c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
                token.append((char) c);
            } else {
                token.append(String.format("%%%02X", c));
            }
        }
        return token.toString();
    }
}
