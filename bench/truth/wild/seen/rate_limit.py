"""Configured limits: requests and bytes per second."""
from services import nginx
from system import SLEEPS, WRK, System, wrk


def requests(place):
    (place.folder / "www").mkdir()
    place.write("www/price", "12.50\n")
    limit = "" if place.fixed else "limit_req zone=all burst=1000;"
    port = nginx(place, f"root {place.folder}/www; location / {{ {limit} }}", f"limit_req_zone $server_port zone=all:1m rate={round(200 / place.scale)}r/s;", name="gateway")
    return wrk(f"http://127.0.0.1:{port}/price", 10, place.seconds)


def bytes_per_second(place):
    data = place.folder / "dump"
    place.run("sh", "-c", f"head -c 120000000 /dev/zero > {data}")
    limit = "" if place.fixed else f"-L {round(25 / place.fault)}m"
    return ["sh", "-c", f"cat {data} | pv -q {limit} | md5sum"]


MECHANISM = (*SLEEPS, r"\bpaced?\b", r"\brate\b", r"\blimit", r"\bdelay")
SYSTEMS = [
    System(
        name="nginx_limit_req",
        kind="rate-limit",
        truth="nginx delays requests by timers so that 200 pass in a second",
        load=requests,
        rate=WRK,
        component=(r"nginx",),
        mechanism=MECHANISM,
        halves=True,
        needs=("nginx", "wrk"),
    ),
    System(
        name="pv_limit_work",
        kind="rate-limit",
        truth="pv lets 25 MiB pass in a second, in the middle of a pipe",
        load=bytes_per_second,
        component=(r"\bpv\b",),
        mechanism=MECHANISM,
        halves=True,
        needs=("pv",),
    ),
]
