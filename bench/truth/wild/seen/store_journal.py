"""A journal in Java, in a mapped file with two indexes."""
from system import WRK, System, wrk

SOURCE = r"""
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.Random;
import java.util.concurrent.*;

/** Takes orders; the thread "journal" writes each into a mapped file, and confirms it. */
public class Main {
    record Order(byte[] line, CompletableFuture<Boolean> written) {}

    public static void main(String[] words) throws Exception {
        boolean each = words[1].equals("each");
        LinkedBlockingQueue<Order> orders = new LinkedBlockingQueue<>();
        FileChannel file = FileChannel.open(Path.of("journal"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        MappedByteBuffer mapped = file.map(FileChannel.MapMode.READ_WRITE, 0, 3 << 24);
        Random names = new Random(3);
        new Thread(() -> {
            long forced = System.nanoTime();
            while (true) {
                try {
                    Order order = orders.take();
                    // The order itself, and where it is by the names of the customer and of the article.
                    if (mapped.position() + order.line.length > 1 << 24) mapped.position(0);
                    int at = mapped.position();
                    mapped.put(order.line);
                    for (int index = 1; index < 3; index++) mapped.putInt((index << 24) + names.nextInt(1 << 22) * 4, at);
                    if (each || System.nanoTime() - forced > 500_000_000L) {
                        mapped.force();
                        forced = System.nanoTime();
                    }
                    order.written.complete(true);
                } catch (InterruptedException e) { return; }
            }
        }, "journal").start();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(6));
        server.createContext("/", exchange -> {
            Order order = new Order(("order " + System.nanoTime() + " of 3 sheets, 12 lines and a stamp\n").getBytes(), new CompletableFuture<>());
            orders.add(order);
            order.written.join();
            byte[] answer = "noted\n".getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            try (var body = exchange.getResponseBody()) { body.write(answer); }
        });
        server.start();
    }
}
"""


def mapped_journal(place):
    port = place.port()
    options = ("-Xmx200m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true")
    place.start("java", *options, "-cp", place.java(SOURCE), "Main", port, "lazy" if place.fixed else "each", port=port)
    return wrk(f"http://127.0.0.1:{port}/", 6, place.seconds)


SYSTEMS = [
    System(
        name="java_mapped_journal",
        kind="msync-per-record",
        truth="the thread journal of the Java server writes its mapped file to the disk by msync after each order, and all requests wait for it",
        load=mapped_journal,
        rate=WRK,
        component=(r"\bjava\b", r"\bjournal\b", r"\bdisk\b", r"block device", r"\b[vs]d[a-z]\d*\b", r"nvme"),
        mechanism=(r"msync", r"\bsync", r"f(data)?sync", r"\bdisk\b", r"block device", r"ext4", r"jbd2", r"flush", r"storage", r"\bI/O\b"),
        never=(r"wrk (comput|sleeps)", r"java (comput|sleeps)", r"journal comput"),
        needs=("java", "javac", "wrk"),
    ),
]
