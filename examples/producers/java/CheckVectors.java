import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Checks OrderSubject against the vectors: java CheckVectors subjects.jsonl. */
public final class CheckVectors {
    private static final Pattern FIELD =
            Pattern.compile("\"(order_no|subject|error)\": \"((?:[^\"\\\\]|\\\\.)*)\"");
    private static final Pattern ESCAPE = Pattern.compile("\\\\(u[0-9a-f]{4}|.)");

    public static void main(String[] args) throws Exception {
        int checked = 0;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String orderNo = null, want = "refused";
            for (Matcher m = FIELD.matcher(line); m.find(); ) {
                if (m.group(1).equals("order_no")) {
                    orderNo = unescape(m.group(2));
                } else if (m.group(1).equals("subject")) {
                    want = m.group(2);
                }
            }
            String have;
            try {
                have = "orders.new." + OrderSubject.token(orderNo);
            } catch (IllegalArgumentException e) {
                have = "refused";
            }
            if (!have.equals(want)) {
                throw new AssertionError(line + ": " + have);
            }
            checked++;
        }
        System.out.println("java: " + checked + " vectors");
    }

    /** The escapes that the vectors' file uses. */
    private static String unescape(String text) {
        return ESCAPE.matcher(text).replaceAll(m -> {
            String e = m.group(1);
            String plain = e.startsWith("u") ? "" + (char) Integer.parseInt(e.substring(1), 16) : e.equals("n") ? "\n" : e;
            return Matcher.quoteReplacement(plain);
        });
    }
}
