"""Servers that several systems start: nginx, postgres, redis, memcached."""
import os
import pwd
import signal
from pathlib import Path


def nginx(place, server, http="", workers=1, name="nginx"):
    """Starts nginx; returns its port. `server` is the content of the server block."""
    port, folder = place.port(), place.folder
    paths = " ".join(f"{kind}_temp_path {folder}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    place.write(f"{name}.conf", f"""
daemon off; user root; pid {folder}/{name}.pid; error_log {folder}/{name}.error; worker_processes {workers};
events {{ worker_connections 1024; }}
http {{ access_log off; {paths} {http}
  server {{ listen 127.0.0.1:{port} backlog=511; keepalive_requests 10000000; {server} }} }}
""")
    place.start("nginx", "-p", folder, "-c", f"{folder}/{name}.conf", port=port)
    return port


def postgres(place, sql="", **settings):
    """Starts a fresh cluster that trusts everybody on the loopback, and runs `sql`; returns its port."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    home, port = place.folder / "cluster", place.port()
    home.mkdir()
    user = pwd.getpwnam("postgres")
    os.chown(home, user.pw_uid, user.pw_gid)
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "env": environment}
    place.run(programs / "initdb", "-D", home, "-A", "trust", "-U", "postgres", "--no-sync", "--no-instructions", **as_user)
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "autovacuum": "off", "port": port, **settings}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    # SIGINT: end now, also with clients.
    place.start(programs / "postgres", "-D", home, *words, port=port, stop=signal.SIGINT, **as_user)
    place.run("psql", *at(port), "-q", "-v", "ON_ERROR_STOP=1", "-c", sql or "select 1")
    return port


def at(port):
    """Where psql and pgbench find it."""
    return ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]


def redis(place, *options):
    port = place.port()
    place.start("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place.folder, *options, port=port)
    return port
