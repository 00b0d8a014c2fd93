"""A Java server with a pool of two threads in front of a slow backend; wrk keeps it busy."""
from system import PYTHON, SLEEPS, WRK, System, wrk

FRONT = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.*;
import java.util.concurrent.Executors;

public class Main {
    public static void main(String[] words) throws Exception {
        HttpClient backend = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest search = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + words[1] + "/")).build();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(words[2])));
        server.createContext("/", exchange -> {
            byte[] found;
            try {
                found = backend.send(search, HttpResponse.BodyHandlers.ofByteArray()).body();
            } catch (InterruptedException error) {
                throw new java.io.IOException(error);
            }
            exchange.sendResponseHeaders(200, found.length);
            exchange.getResponseBody().write(found);
            exchange.close();
        });
        server.start();
    }
}
"""

BACKEND = """
import asyncio, sys

async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            await asyncio.sleep(float(sys.argv[2]))
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nfound\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
"""


def load(place):
    back, front = place.port(), place.port()
    place.start(PYTHON, place.write("search.py", BACKEND), back, 0.040 * place.scale, port=back)
    place.start("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", place.java(FRONT), "Main", front, back, 16 if place.fixed else 2, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 16, place.seconds)


SYSTEMS = [
    System(
        name="java_pool",
        kind="pool-too-small",
        truth="the Java server has two threads for sixteen clients, and each waits 40 ms for the backend",
        load=load,
        rate=WRK,
        component=(r"java", r"pool-\d", r"HTTP-Dispatcher", r"python|search"),
        mechanism=(r"\bpool\b", r"threads? (are|is) busy", *SLEEPS),
        change="x0.125",
        halves=True,
        needs=("java", "javac", "wrk", PYTHON),
    ),
]
