"""Requests in two small writes without TCP_NODELAY: the second waits for a delayed acknowledgement."""
from services import redis
from system import ITEMS, PYTHON, System

SERVER = """
import socket, sys, threading

def serve(connection):
    data = b""
    while True:
        while len(data) < 64:
            more = connection.recv(4096)
            if not more:
                return
            data += more
        data = data[64:]
        connection.sendall(b"ok--")

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

CLIENT = """
import socket, sys, time

apart, seconds = sys.argv[2] == "apart", float(sys.argv[3])
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    if apart:
        server.sendall(b"h" * 8)
        server.sendall(b"b" * 56)
    else:
        server.sendall(b"h" * 8 + b"b" * 56)
    server.recv(4, socket.MSG_WAITALL)
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# A redis client that flushes the command and its argument separately.
JAVA = """
import java.io.*;
import java.net.Socket;

public class Main {
    public static void main(String[] words) throws Exception {
        int threads = 3, each = Integer.parseInt(words[2]) / threads;
        boolean apart = words[1].equals("apart");
        Thread[] all = new Thread[threads];
        long begin = System.nanoTime();
        for (int thread = 0; thread < threads; thread++) {
            all[thread] = new Thread(() -> {
                try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(words[0]))) {
                    OutputStream out = socket.getOutputStream();
                    BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream()));
                    for (int i = 0; i < each; i++) {
                        String name = "*2\\r\\n$4\\r\\nINCR\\r\\n", key = "$5\\r\\nhits1\\r\\n";
                        if (apart) {
                            out.write(name.getBytes());
                            out.write(key.getBytes());
                        } else {
                            out.write((name + key).getBytes());
                        }
                        in.readLine();
                    }
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
            all[thread].start();
        }
        for (Thread thread : all) thread.join();
        System.out.printf("items %d seconds %.3f%n", threads * each, (System.nanoTime() - begin) / 1e9);
    }
}
"""


def python(place):
    port = place.port()
    place.start(PYTHON, place.write("server.py", SERVER), port, port=port)
    return [PYTHON, str(place.write("client.py", CLIENT)), str(port), "together" if place.fixed else "apart", str(place.seconds)]


def java(place):
    port = redis(place)
    return ["java", "-XX:+UseSerialGC", "-cp", str(place.java(JAVA)), "Main", str(port), *(["together", "60000"] if place.fixed else ["apart", "300"])]


MECHANISM = (r"acknowledg", r"\back\b", r"nagle", r"nodelay", r"delayed", r"two (small )?writes")
SYSTEMS = [
    System(
        name="nagle_python",
        kind="nagle-delayed-ack",
        truth="the client's second small write waits 40 ms for the delayed acknowledgement of the first",
        load=python,
        rate=ITEMS,
        component=(r"python", r"client", r"tcp"),
        mechanism=MECHANISM,
        needs=(PYTHON,),
    ),
    System(
        name="nagle_java_redis",
        kind="nagle-delayed-ack",
        truth="each INCR of the Java client is two small writes, of which the second waits 40 ms for redis' delayed acknowledgement",
        load=java,
        rate=ITEMS,
        component=(r"java", r"Thread-\d", r"redis", r"tcp"),
        mechanism=MECHANISM,
        needs=("java", "javac", "redis-server"),
    ),
]
