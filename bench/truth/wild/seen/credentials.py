"""Cryptography in each request: passwords with an expensive hash, a large TLS key."""
from services import nginx
from system import COMPUTES, WRK, System, wrk

CATALOG = """
package main

import ("net/http"; "os")

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("shoes\\n")) })
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def password_hash(place):
    port = place.port()
    place.start(place.go("catalog", CATALOG), port, port=port)
    rounds = int(20000 * place.fault) or 1000
    hashed = place.run("perl", "-e", f"print crypt('secret', '$6$rounds={rounds}$longpole')")
    users = place.write("users", f"shop:{hashed}\n")
    server = f'auth_basic "shop"; auth_basic_user_file {users}; location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }}'
    front = nginx(place, server, f"upstream behind {{ server 127.0.0.1:{port}; keepalive 8; }}")
    words = wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)
    return [*words[:-1], "-H", "Authorization: Basic c2hvcDpzZWNyZXQ=", words[-1]]


def large_key(place):
    port, front = place.port(), place.port()
    place.start(place.go("catalog", CATALOG), port, port=port)
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if place.fixed else ["-newkey", "rsa:4096"]
    place.run("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=shop.test", *kind, "-keyout", "shop.pem.key", "-out", "shop.pem")
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
  tune.ssl.cachesize 0
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front} ssl crt {place.folder}/shop.pem no-tls-tickets
  server catalog 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    words = wrk(f"https://127.0.0.1:{front}/", 4, place.seconds)
    return [*words[:-1], "-H", "Connection: close", words[-1]]


SYSTEMS = [
    System(
        name="nginx_password_hash",
        kind="password-hash-per-request",
        truth="nginx computes the password's hash of 20000 rounds again for each request, in its only worker",
        load=password_hash,
        rate=WRK,
        component=(r"nginx",),
        mechanism=(*COMPUTES, r"crypt", r"hash", r"password", r"sha512"),
        never=(r"catalog (comput|sleep)", r"wrk (comput|sleep)"),
        halves=True,
        needs=("nginx", "perl", "wrk", "go"),
    ),
    System(
        name="haproxy_large_key",
        kind="expensive-tls-key",
        truth="haproxy computes with an RSA key of 4096 bits in the handshake of each connection, in one thread",
        load=large_key,
        rate=WRK,
        component=(r"haproxy",),
        mechanism=(*COMPUTES, r"\btls\b", r"\brsa\b", r"handshake", r"crypt", r"libssl"),
        never=(r"catalog (comput|sleep)", r"wrk (comput|sleep)"),
        needs=("haproxy", "openssl", "wrk", "go"),
    ),
]
