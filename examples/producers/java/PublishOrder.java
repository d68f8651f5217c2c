import io.nats.client.Connection;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.Options;
import io.nats.client.impl.Headers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Publishes one order (library io.nats:jnats) and prints the broker's answer; docs/producers.md says what each answer
 * means and what to do next.
 *
 * <p>Or HTTP, without NATS (docs/gateway.md): curl --json '{"order_no":"A-1001","timeout":30}' http://127.0.0.1:8080/v1/orders
 *
 * <pre>java PublishOrder ORDER_NO ID '{"order_no":"A-1001","timeout":30}'</pre>
 */
public final class PublishOrder {
    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            System.err.println("usage: PublishOrder ORDER_NO ID BODY");
            System.exit(2);
        }
        try (Connection nc = Nats.connect(options())) {
            String subject = "orders.new." + OrderSubject.token(args[0]);
            Headers headers = new Headers().put("Nats-Msg-Id", args[1]);
            byte[] body = args[2].getBytes(StandardCharsets.UTF_8);
            for (int tries = 0; tries < 20; tries++) {
                Message answer = nc.request(subject, headers, body, Duration.ofSeconds(5));
                if (answer != null) { // null: nobody knows whether it was stored; again, with the same id
                    System.out.println(new String(answer.getData(), StandardCharsets.UTF_8));
                    return;
                }
            }
            System.err.println("no answer");
            System.exit(1);
        } catch (java.io.IOException e) {
            System.err.println(e.getMessage());
            System.exit(1);
        }
    }

    /** Where the broker is: NATS_URL, and NATS_TOKEN where it asks for one. */
    static Options options() {
        String url = System.getenv().getOrDefault("NATS_URL", "nats://127.0.0.1:4222");
        Options.Builder options = new Options.Builder().server(url);
        if (System.getenv("NATS_TOKEN") != null) {
            options.token(System.getenv("NATS_TOKEN").toCharArray());
        }
        return options.build();
    }
}
