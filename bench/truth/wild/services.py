"""Servers that several systems start, among them nginx and postgres, and private networks."""
import os
import pwd
import signal
from pathlib import Path


# `top` for an nginx that answers after a delay, by `echo_sleep SECONDS; echo TEXT;`.
ECHO = "load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;"


def nginx(place, server, http="", workers=1, name="nginx", top=""):
    """Starts nginx; returns its port. `server` is text for the server block, `top` text before all
    blocks.
    """
    port, folder = place.port(), place.folder
    paths = " ".join(f"{kind}_temp_path {folder}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    place.write(f"{name}.conf", f"""
{top}
daemon off; user root; pid {folder}/{name}.pid; error_log {folder}/{name}.error; worker_processes {workers};
events {{ worker_connections 1024; }}
http {{ access_log off; {paths} {http}
  server {{ listen 127.0.0.1:{port} backlog=511; keepalive_requests 10000000; {server} }} }}
""")
    place.start("nginx", "-p", folder, "-c", f"{folder}/{name}.conf", port=port)
    return port


# Debian's name of the program contains the version.
PHP_FPM = max((path.name for path in Path("/usr/sbin").glob("php-fpm*")), default="php-fpm")


def php(place, script, children, workers=1, bound=(), settings=""):
    """Starts php-fpm behind nginx; returns the port of nginx. `bound` are words before the command
    of php-fpm.
    """
    port, folder = place.port(), place.folder
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[www]
user = root
group = root
listen = 127.0.0.1:{port}
pm = static
pm.max_children = {children}
{settings}
""")
    place.start(*bound, PHP_FPM, "-n", "-R", "-F", "-y", config, port=port)
    page = place.write("page.php", script)
    return nginx(place, f"location / {{ include /etc/nginx/fastcgi_params; fastcgi_pass 127.0.0.1:{port}; fastcgi_param SCRIPT_FILENAME {page}; }}", workers=workers)


def postgres(place, sql="", **settings):
    """Starts a new cluster that trusts every local connection, and runs `sql`; returns its port."""
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
    # SIGINT ends the server at once, even if clients are connected.
    place.start(programs / "postgres", "-D", home, *words, port=port, stop=signal.SIGINT, **as_user)
    # The server listens before it accepts connections.
    place.run("sh", "-c", f"for i in $(seq 200); do pg_isready -q {' '.join(at(port))} && exit; sleep 0.05; done; exit 1")
    place.run("psql", *at(port), "-q", "-v", "ON_ERROR_STOP=1", "-c", sql or "select 1")
    return port


def at(port):
    """Returns the options with which psql and pgbench connect."""
    return ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]


def redis(place, *options):
    port = place.port()
    place.start("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place.folder, *options, port=port)
    return port


def mariadb(place, sql="", *options):
    """Starts a new server whose root user has no password, and runs `sql` in the database `test`;
    returns its port.
    """
    home, port, socket = place.folder / "mariadb", place.port(), place.folder / "mariadb.sock"
    place.run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={home}", "--auth-root-authentication-method=normal", "--skip-name-resolve")
    place.start("mariadbd", "--no-defaults", "--user=root", f"--datadir={home}", f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1",
                "--skip-name-resolve", *options, port=port)
    place.run("mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root", "-e", f"create database if not exists test; use test; {sql or 'select 1'}")
    return port


def private_network(place, *commands):
    """Makes a network and mount namespace with a loopback of its own, after shell commands in it.

    Returns the words before a command that should run in it. A port in it is not reachable from
    outside.
    """
    ready = place.folder / "network-ready"
    script = " && ".join(["ip link set lo up", *commands, f"touch {ready}", "exec sleep infinity"])
    holder = place.start("unshare", "-n", "-m", "sh", "-c", script, path=ready)
    return ["nsenter", "-t", str(holder.pid), "-n", "-m"]
