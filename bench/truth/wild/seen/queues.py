"""Consumers of queues: one message of RabbitMQ at a time, and a worker that polls redis."""
import os
from pathlib import Path

from services import redis
from system import ITEMS, PYTHON, SLEEPS, System

CONSUMER = """
import sys, threading, time, queue
import pika

parameters = pika.ConnectionParameters("127.0.0.1", int(sys.argv[1]))
connection = pika.BlockingConnection(parameters)
channel = connection.channel()
channel.basic_qos(prefetch_count=int(sys.argv[2]))
jobs, done = queue.Queue(), 0

def work():
    while True:
        tag = jobs.get()
        time.sleep(0.01)  # what the partner's interface takes
        connection.add_callback_threadsafe(lambda tag=tag: finish(tag))

def finish(tag):
    global done
    channel.basic_ack(tag)
    done += 1

for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
channel.basic_consume("invoices", lambda channel, method, properties, body: jobs.put(method.delivery_tag))
begin = time.monotonic()
while time.monotonic() < begin + float(sys.argv[3]):
    connection.process_data_events(0.1)
print(f"items {done} seconds {time.monotonic() - begin:.3f}")
"""
FILL = """
import sys, pika
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = connection.channel()
channel.queue_declare("invoices")
for number in range(10000):
    channel.basic_publish("", "invoices", b"invoice %d" % number)
connection.close()
"""


def rabbit(place):
    """Starts a node of RabbitMQ with its own port mapper. Returns its port."""
    port, mapper, cluster = place.port(), place.port(), place.port()
    mapped = {"ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1"}
    place.start("epmd", "-port", mapper, "-address", "127.0.0.1", port=mapper, env={**os.environ, **mapped})
    config = place.write("rabbit.conf", f"listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users = none\nlog.console = false\n")
    environment = {
        **mapped, "PATH": "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place.folder), "LANG": "C.UTF-8",
        "RABBITMQ_NODENAME": "wild@localhost", "RABBITMQ_CONFIG_FILE": str(config), "RABBITMQ_MNESIA_BASE": str(place.folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(place.folder), "RABBITMQ_ENABLED_PLUGINS_FILE": str(place.write("plugins", "[].")),
        "RABBITMQ_DIST_PORT": str(cluster), "RABBITMQ_PID_FILE": str(place.folder / "rabbit.pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
    }
    server = max(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    place.start(server, port=port, env=environment)
    return port


def prefetch(place):
    port = rabbit(place)
    place.run(PYTHON, place.write("fill.py", FILL), port)
    count = 8 if place.fixed else round(1 / place.fault)
    return [PYTHON, str(place.write("invoicer.py", CONSUMER)), str(port), str(count), str(place.seconds)]


MAILER = """
import sys, time
import redis
store, pause = redis.Redis(port=int(sys.argv[1])), float(sys.argv[2])
while True:
    job = store.lpop("mails") if pause else store.blpop("mails")[1]
    if job is None:
        time.sleep(pause)
    else:
        store.lpush("sent", job)
"""
SHOP = """
import sys, time
import redis
store, count, begin = redis.Redis(port=int(sys.argv[1])), 0, time.monotonic()
while time.monotonic() < begin + float(sys.argv[2]):
    sum(range(100000))
    store.rpush("mails", "order %d" % count)
    store.blpop("sent")
    count += 1
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def polled(place):
    port = redis(place)
    place.start(PYTHON, place.write("mailer.py", MAILER), port, 0.03 * place.fault)
    return [PYTHON, str(place.write("shop.py", SHOP)), str(port), str(place.seconds)]


SYSTEMS = [
    System(
        name="rabbitmq_prefetch_one",
        kind="prefetch-one",
        truth="with a prefetch of 1, invoicer has one message at a time, though eight threads could sleep 10 ms at once",
        load=prefetch,
        rate=ITEMS,
        component=(r"python", r"invoicer"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time"),
        change="x0.125",
        halves=True,
        needs=(PYTHON, "rabbitmq-server", "epmd"),
    ),
    System(
        name="redis_polling_mailer",
        kind="polling-consumer",
        truth="mailer sleeps 30 ms before it asks redis again for a job, and the shop waits for it",
        load=polled,
        rate=ITEMS,
        component=(r"mailer",),
        mechanism=(r"\bpoll", *SLEEPS),
        change="x0",
        halves=True,
        running=True,
        needs=(PYTHON, "redis-server"),
    ),
]
