import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Brings an order over HTTP and waits for its outcome (docs/gateway.md), or receives webhooks (docs/notify.md). Needs Java 17.
 *
 *   java Orders.java submit KEY '{"order_no":"A-1001","timeout":30}'
 *   java Orders.java receive 8090
 *
 * ORDERPOST_URL is the door, ORDERPOST_TOKEN your token, WEBHOOK_SECRET what `orderpost notify secret` printed.
 */
public class Orders {
    static final Map<String, String> env = System.getenv();
    static final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** Sends a request again while the door cannot answer. Its key names the submission, so nothing is stored twice. */
    static HttpResponse<String> ask(String method, String path, String key, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(env.getOrDefault("ORDERPOST_URL", "http://127.0.0.1:8080") + path))
            .timeout(Duration.ofMinutes(1)).header("Content-Type", "application/json").header("Idempotency-Key", key)
            .header("Authorization", "Bearer " + env.getOrDefault("ORDERPOST_TOKEN", ""))
            .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        for (int tries = 1; ; tries++) {
            String problem, pause = "1";
            try {
                var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() < 300) return answer;
                problem = answer.statusCode() + ": " + answer.body();
                if (!List.of(408, 429, 503, 504).contains(answer.statusCode())) tries = 20; // it says what to correct
                pause = answer.headers().firstValue("Retry-After").orElse("1");
            } catch (IOException err) { // no whole answer: nobody knows whether the order is stored
                problem = err.toString();
            }
            if (tries == 20) throw new IOException(problem);
            Thread.sleep(1000 * Long.parseLong(pause));
        }
    }

    /** May be called again with the same key: keep it with the order before the first call. */
    static void submit(String key, String body) throws Exception {
        var receipt = ask("POST", "/v1/orders", key, body);
        String order;
        do order = ask("GET", receipt.headers().firstValue("Location").get() + "&wait=30s", key, "").body(); while (member(order, "state").equals("pending"));
        System.out.printf("%s: %s, created: %s%n", receipt.statusCode() == 201 ? "stored" : "known", member(order, "outcome"), member(order, "created"));
    }

    /** Stands for the JSON library of your program: the first text or number of this name; "" = there is none. */
    static String member(String json, String name) {
        var m = Pattern.compile("\"" + name + "\":\\s*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|(\\d+))").matcher(json);
        return !m.find() ? "" : m.group(1) != null ? m.group(1) : m.group(2);
    }

    /** Reports whether we and the sender share the secret, and the event was signed within five minutes. */
    static boolean genuine(Headers headers, byte[] body) throws GeneralSecurityException {
        String id = headers.getFirst("webhook-id"), at = headers.getFirst("webhook-timestamp"), signatures = headers.getFirst("webhook-signature");
        if (id == null || at == null || signatures == null || !at.matches("\\d{1,12}")) return false;
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(at)) > 300) return false;
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(env.get("WEBHOOK_SECRET").replaceFirst("^whsec_", "")), "HmacSHA256"));
        mac.update((id + "." + at + ".").getBytes(UTF_8));
        byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(UTF_8);
        // Two signatures come while the secret is replaced.
        return Stream.of(signatures.split(" ")).anyMatch(one -> MessageDigest.isEqual(one.getBytes(UTF_8), want));
    }

    static final Set<String> seen = new HashSet<>(); // in your program: a database, written before the answer
    static final Map<String, Long> last = new HashMap<>();

    static void take(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readAllBytes();
            if (!genuine(exchange.getRequestHeaders(), body)) {
                exchange.sendResponseHeaders(401, -1);
                return;
            }
            String event = new String(body, UTF_8), no = member(event, "order_no"); // "" = an event of the fleet
            long position = Long.parseLong("0" + member(event, "position"));
            boolean fresh = seen.add(exchange.getRequestHeaders().getFirst("webhook-id")); // no repetition
            if (fresh && (no.isEmpty() || position > last.getOrDefault(no, 0L))) { // nor older than what we know
                last.put(no, position);
                System.out.println(member(event, "type") + " " + no + " " + member(event, "outcome"));
            }
            exchange.sendResponseHeaders(204, -1);
        } catch (GeneralSecurityException err) {
            throw new IOException(err);
        }
    }

    static void receive(int port) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Orders::take);
        server.start(); // it takes one event at a time
        System.out.println("receiving at http://127.0.0.1:" + server.getAddress().getPort());
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 3 && args[0].equals("submit")) submit(args[1], args[2]);
        else if (args.length == 2 && args[0].equals("receive") && env.containsKey("WEBHOOK_SECRET")) receive(Integer.parseInt(args[1]));
        else throw new IllegalArgumentException("usage: Orders.java submit KEY BODY | WEBHOOK_SECRET=… Orders.java receive PORT");
    }
}
