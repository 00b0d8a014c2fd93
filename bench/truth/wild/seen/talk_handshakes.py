"""Costs of connection settings: a deferred accept, a cipher in software."""
from system import COMPUTES, ITEMS, System

POSTOFFICE = """#!/usr/bin/ruby
require 'socket'
server = TCPServer.new('127.0.0.1', ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |peer|
    begin
      peer.write("220 postoffice\\r\\n")
      while (line = peer.gets)
        case line
        when /^DATA/i
          peer.write("354 go on\\r\\n")
          nil until (text = peer.gets).nil? || text == ".\\r\\n"
          peer.write("250 taken\\r\\n")
        when /^QUIT/i
          peer.write("221 bye\\r\\n")
          break
        else
          peer.write("250 ok\\r\\n")
        end
      end
    rescue SystemCallError
    ensure
      peer.close
    end
  end
end
"""

NEWSLETTER = """#!/usr/bin/python3
import smtplib, sys, threading, time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
begin, counts = time.monotonic(), []

def deliver():
    count = 0
    while time.monotonic() < begin + seconds:
        with smtplib.SMTP("127.0.0.1", port, local_hostname="press") as mail:
            mail.sendmail("press@example.org", ["reader@example.org"], "Subject: news\\r\\n\\r\\nall is well\\r\\n")
        count += 1
    counts.append(count)

threads = [threading.Thread(target=deliver) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - begin:.3f}")
"""


def certificate(place):
    place.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem")


def tls_port(place, body, env):
    """nginx with TLS, in an environment of its own."""
    port, folder = place.port(), place.folder
    paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    place.write("tls.conf", f"""
daemon off; user root; pid {folder}/tls.pid; error_log {folder}/tls.error; worker_processes 1;
events {{ worker_connections 1024; }}
http {{ access_log off; {paths}
  server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.2; keepalive_requests 10000000; {body} }} }}
""")
    place.start("nginx", "-p", folder, "-c", f"{folder}/tls.conf", port=port, env=env)
    return port


def deferred_accept(place):
    port, front = place.port(), place.port()
    place.start(place.write("postoffice", POSTOFFICE), port, port=port)
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen mail
  bind 127.0.0.1:{front}{"" if place.fixed else " defer-accept"}
  server postoffice 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.write("newsletter", NEWSLETTER)), str(front), str(place.seconds)]


def cipher_in_software(place):
    certificate(place)
    with place.write("film", "").open("wb") as film:
        film.truncate(64 << 20)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    if not place.fixed:
        env["OPENSSL_ia32cap"] = "~0x200000200000000"
    port = tls_port(place, f"location / {{ root {place.folder}; }} ssl_ciphers ECDHE-RSA-AES256-GCM-SHA384; ssl_buffer_size 16k;", env)
    return ["curl", "-ks", "-o", "/dev/null", f"https://127.0.0.1:{port}/film?[1-5]"]


SYSTEMS = [
    System(
        name="haproxy_deferred_accept",
        kind="deferred-accept",
        truth="haproxy's listening socket defers each accept until the client speaks (TCP_DEFER_ACCEPT), who waits for the greeting, so that each connection waits a second until the kernel's handshake timer ends",
        load=deferred_accept,
        rate=ITEMS,
        component=(r"haproxy", r"port \d+", r"\bconnections?\b", r"\bsyn\b", r"handshake", r"newsletter.* (connect|greeting)", r"listen"),
        mechanism=(r"accept", r"defer", r"\bsyn\b", r"syn-?ack", r"handshake", r"retransmi", r"(sent|sends|tried) again", r"timer of the kernel", r"kernel.* timer", r"\b1(\.0\d*)? s\b.* timer"),
        never=(r"(postoffice|ruby|newsletter|python3?|haproxy) (sleep|comput)",),
        needs=("haproxy", "ruby"),
    ),
    System(
        name="nginx_cipher_in_software",
        kind="cipher-in-software",
        truth="nginx encrypts the film without the AES instructions of the CPU, and curl waits for it",
        load=cipher_in_software,
        component=(r"nginx",),
        mechanism=(*COMPUTES, r"\bcpu\b", r"encrypt", r"cipher"),
        never=(r"curl (sleep|comput)", r"nginx (sleep|waits for the disk)"),
        needs=("nginx", "curl", "openssl"),
    ),
]
