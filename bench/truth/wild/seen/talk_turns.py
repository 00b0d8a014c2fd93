"""Dialogues with wasted round trips: a single HTTP/2 stream, an answer that ends with a timeout,
transactions that fail and are repeated.
"""
from services import redis
from system import ITEMS, LOCKS, SLEEPS, System

THUMBNAILS = """
package main

import ("net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		w.Write([]byte("a small picture\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

GALLERY = """
const http2 = require('http2');
const session = http2.connect(`https://127.0.0.1:${process.argv[2]}`, { rejectUnauthorized: false });
const begin = process.hrtime.bigint();
const seconds = () => Number(process.hrtime.bigint() - begin) / 1e9;
let items = 0, open = 0;

function ask() {
  const request = session.request({ ':path': '/' });
  open++;
  request.resume();
  request.on('end', () => {
    items++;
    open--;
    if (seconds() < Number(process.argv[3])) {
      ask();
    } else if (!open) {
      console.log(`items ${items} seconds ${seconds().toFixed(3)}`);
      session.close();
    }
  });
}
session.once('remoteSettings', () => { for (let i = 0; i < 16; i++) ask(); });
"""

SURVEY = """
import java.io.*;
import java.net.*;

public class Main {
    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]), timeout = Integer.parseInt(words[1]);
        Thread[] threads = new Thread[4];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> survey(port, timeout), "survey-" + t);
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
    }

    static void survey(int port, int timeout) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeout > 0 ? timeout : 5000);
            byte[] buffer = new byte[65536];
            for (int i = 0; i < 140; i++) {
                socket.getOutputStream().write("stats\\r\\n".getBytes());
                StringBuilder answer = new StringBuilder();
                try {
                    while (timeout > 0 || answer.indexOf("END\\r\\n") < 0) {
                        int count = socket.getInputStream().read(buffer);
                        if (count < 0) throw new IOException("memcached is gone");
                        answer.append(new String(buffer, 0, count));
                    }
                } catch (SocketTimeoutException end) {
                    // Nothing more came: this was the answer.
                }
                if (answer.indexOf("END") < 0) throw new IOException("no answer");
            }
        } catch (IOException error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
"""

TELLER = """#!/usr/bin/python3
import multiprocessing, sys, time
import redis

port, pause, optimistic, seconds = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "watch", float(sys.argv[4])
begin = time.monotonic()

def teller(counts):
    bank = redis.Redis(port=port)
    count = 0
    while time.monotonic() < begin + seconds:
        with bank.pipeline() as pipe:
            if optimistic:
                try:
                    pipe.watch("balance")
                    balance = int(pipe.get("balance") or 0)
                    time.sleep(pause)
                    pipe.multi()
                    pipe.set("balance", balance + 1)
                    pipe.execute()
                except redis.WatchError:
                    continue
            else:
                time.sleep(pause)
                pipe.incr("balance")
                pipe.execute()
        count += 1
    counts.put(count)

counts = multiprocessing.Queue()
tellers = [multiprocessing.Process(target=teller, args=(counts,)) for _ in range(10)]
for it in tellers:
    it.start()
total = sum(counts.get() for _ in tellers)
for it in tellers:
    it.join()
print(f"items {total} seconds {time.monotonic() - begin:.3f}")
"""


def one_stream(place):
    behind, port, folder = place.port(), place.port(), place.folder
    place.start(place.go("thumbnails", THUMBNAILS), behind, f"{15 * place.scale}ms", port=behind)
    place.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem")
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    place.write("front.conf", f"""
daemon off; user root; pid {folder}/front.pid; error_log {folder}/front.error; worker_processes 1;
events {{ worker_connections 1024; }}
http {{ access_log off; {paths} keepalive_requests 10000000;
  upstream behind {{ server 127.0.0.1:{behind}; keepalive 32; }}
  server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    http2_max_concurrent_streams {32 if place.fixed else 1};
    location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
""")
    place.start("nginx", "-p", folder, "-c", f"{folder}/front.conf", port=port)
    return ["node", str(place.write("gallery.js", GALLERY)), str(port), str(place.seconds)]


def end_by_timeout(place):
    port = place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-t", "1", port=port)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", str(place.java(SURVEY)), "Main", str(port), str(round(28 * place.fault))]


def optimistic_retry(place):
    port = redis(place)
    return [str(place.write("tellers", TELLER)), str(port), str(0.008 * place.scale), "counter" if place.fixed else "watch", str(place.seconds)]


SYSTEMS = [
    System(
        name="node_one_http2_stream",
        kind="http2-stream-limit",
        truth="nginx allows one stream at a time in the HTTP/2 connection of gallery.js, so that its sixteen requests wait one after the other for thumbnails, which sleeps 15 ms for each",
        load=one_stream,
        rate=ITEMS,
        component=(r"thumbnails", r"http/?2", r"\bstreams?\b"),
        mechanism=(*SLEEPS, *LOCKS, r"one after the other", r"in sequence", r"\bstreams?\b"),
        never=(r"(node|gallery\S*|nginx) (sleep|comput)", r"thumbnails comput"),
        change="x0.0625",
        halves=True,
        needs=("node", "nginx", "go", "openssl"),
    ),
    System(
        name="java_end_by_timeout",
        kind="end-of-answer-by-timeout",
        truth="the Java client reads each answer of memcached until its socket's timeout of 28 ms ends, though all of the answer came at once",
        load=end_by_timeout,
        component=(r"java", r"survey"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out"),
        never=(r"memcached (sleep|comput)", r"(java|survey\S*) comput"),
        change="x0",
        halves=True,
        needs=("java", "javac", "memcached"),
    ),
    System(
        name="redis_watch_conflicts",
        kind="optimistic-retry",
        truth="of ten tellers that sleep 8 ms between WATCH and EXEC of the same key in redis, one succeeds, and the others sleep again for another try",
        load=optimistic_retry,
        rate=ITEMS,
        component=(r"tellers?", r"python"),
        mechanism=(*SLEEPS, r"conflict", r"retr(y|ies)", r"tried again", r"watch"),
        never=(r"redis\S* (sleep|comput)", r"(tellers?|python\S*) comput"),
        halves=True,
    ),
]
