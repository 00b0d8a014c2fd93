"""An estimator of repairs, and desks that ask it again before it has answered."""
from system import COMPUTES, ITEMS, System

# Serves two requests at once; others wait in a queue.
ESTIMATOR = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.concurrent.Executors;

public class Main {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            try {
                byte[] sum = exchange.getRequestURI().getPath().getBytes();
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                for (int i = 0; i < 80000; i++) sum = digest.digest(sum);
                exchange.sendResponseHeaders(200, sum.length);
                exchange.getResponseBody().write(sum);
            } catch (Exception error) {
                // Who asked has gone.
            } finally {
                exchange.close();
            }
        });
        server.start();
    }
}
"""

DESKS = """#!/usr/bin/ruby
# usage: desks PORT SECONDS PATIENCE…: six desks ask for estimates; PATIENCE: seconds for the first try, the second, and so on.
require "socket"

port, seconds, *patience = ARGV[0].to_i, *ARGV[1..].map(&:to_f)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
estimates = [0] * 6

ask = lambda do |path, limit|
  estimator = TCPSocket.new("127.0.0.1", port)
  estimator.write("GET #{path} HTTP/1.0\\r\\n\\r\\n")
  answer = IO.select([estimator], nil, nil, limit) && estimator.read
  estimator.close
  answer
end

desks = 6.times.map do |who|
  Thread.new do
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + seconds
      patience.any? { |limit| ask.call("/desk#{who}/#{estimates[who]}", limit) } or raise "no answer"
      estimates[who] += 1
    end
  end
end
desks.each(&:join)
printf("items %d seconds %.3f\\n", estimates.sum, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
"""


def estimates(place):
    port = place.port()
    place.start("java", "-XX:+UseSerialGC", "-cp", place.java(ESTIMATOR), "Main", port, port=port)
    patience = ["30"] if place.fixed else ["0.01", "0.015", "0.02", "30"]
    return [str(place.write("desks", DESKS)), str(port), str(place.seconds), *patience]


SYSTEMS = [
    System(
        name="java_estimates_asked_again",
        kind="abandoned-work",
        truth="java computes most estimates for nobody: desks give up after 10 to 20 ms and ask again, while the first request is still in the queue and will be computed all the same",
        load=estimates,
        rate=ITEMS,
        component=(r"\bjava\b", r"\bpool-\d", r"port \d+", r"desks[^.;]*(time-?out|give|gives|gave|again|retr|time limit|abandon)"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b", r"time-?out", r"gives? up", r"again", r"retr(y|ies)", r"abandon", r"time limit"),
        never=(r"(desks|ruby\S*) (comput|sleeps)", r"java sleeps", r"\bdisk\b", r"garbage"),
        needs=("java", "javac", "ruby"),
    ),
]
