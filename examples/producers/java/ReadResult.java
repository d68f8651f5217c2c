import io.nats.client.Connection;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.support.JsonParser;
import io.nats.client.support.JsonValue;
import io.nats.client.support.JsonValueUtils;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;

/**
 * Prints what became of one submission (library io.nats:jnats): accepted, rejected, ..., or retrying while it is being
 * worked on; nothing where the last word on the order is about other submissions.
 *
 * <pre>java ReadResult ORDER_NO ID</pre>
 */
public final class ReadResult {
    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("usage: ReadResult ORDER_NO ID");
            System.exit(2);
        }
        try (Connection nc = Nats.connect(PublishOrder.options())) {
            String query = "{\"last_by_subj\":\"orders.results." + OrderSubject.token(args[0]) + "\"}";
            Message answer = nc.request("$JS.API.STREAM.MSG.GET.ORDERS_RESULTS", query.getBytes(StandardCharsets.UTF_8), Duration.ofSeconds(5));
            if (answer == null) {
                System.err.println("no answer");
                System.exit(1);
            }
            JsonValue message = JsonValueUtils.readValue(JsonParser.parse(answer.getData()), "message");
            if (message == null) {
                System.out.println("no result");
                return;
            }
            byte[] record = Base64.getDecoder().decode(JsonValueUtils.readString(message, "data"));
            System.out.println(of(JsonParser.parse(record), args[1]));
        } catch (java.io.IOException e) {
            System.err.println(e.getMessage());
            System.exit(1);
        }
    }

    /**
     * What became of one submission. One that is named among the conflicts was refused: the order_no belongs to a
     * submission with another body. Until that is accepted, nobody knows which of the two exists.
     */
    static String of(JsonValue result, String id) {
        String outcome = JsonValueUtils.readString(result, "outcome");
        String about = JsonValueUtils.readString(result, "intent_id");
        for (JsonValue conflict : JsonValueUtils.readArray(result, "conflicts")) {
            if (id.equals(JsonValueUtils.readString(conflict, "intent_id"))) {
                return outcome.equals("accepted") ? "rejected: conflict, the order_no was accepted with another body" : outcome;
            }
        }
        return id.equals(about) ? outcome : "no result of this submission; the last word is about " + about;
    }
}
