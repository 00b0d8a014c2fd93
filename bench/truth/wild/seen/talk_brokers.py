"""A broker that saves all of its state for each message."""
from system import ITEMS, PYTHON, System

LOADER = """
import sys
import paho.mqtt.client as mqtt

client = mqtt.Client(client_id="loader")
client.max_queued_messages_set(0)
client.max_inflight_messages_set(100)
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
last = [client.publish(f"meters/{i}/state", "x" * 400, qos=1, retain=True) for i in range(int(sys.argv[2]))]
for it in last:
    it.wait_for_publish(60)
client.disconnect()
client.loop_stop()
"""

METERS = """#!/usr/bin/python3
import socket, struct, sys, time

# A publisher that waits for the acknowledgement of each message.
broker = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
broker.sendall(bytes([0x10, 18]) + b"\\x00\\x04MQTT\\x04\\x02\\x00\\x3c" + b"\\x00\\x06meters")
assert broker.recv(4)[3] == 0
begin, items = time.monotonic(), 0
while items < int(sys.argv[2]):
    topic = b"meters/%d/state" % (items % 1000)
    body = struct.pack("!H", len(topic)) + topic + struct.pack("!H", items % 60000 + 1) + b"%d" % items
    broker.sendall(bytes([0x33, len(body)]) + body)
    assert broker.recv(4)[0] == 0x40
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def save_all(place):
    port, folder = place.port(), place.folder
    general = f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence true\npersistence_location {folder}/\nmax_queued_messages 0\nlog_type error\n"
    first = place.start("mosquitto", "-c", place.write("first.conf", general), port=port)
    place.run(PYTHON, place.write("loader.py", LOADER), port, 3000)
    first.terminate()
    first.wait(20)
    saving = "autosave_interval 1800\n" if place.fixed else "autosave_on_changes true\nautosave_interval 1\n"
    place.start("mosquitto", "-c", place.write("mosquitto.conf", general + saving), port=port)
    return [str(place.write("meters", METERS)), str(port), "30000" if place.fixed else "400"]


SYSTEMS = [
    System(
        name="mosquitto_saves_all",
        kind="whole-state-saved-per-message",
        truth="mosquitto writes its whole database of 3000 retained messages to its file for each message that meters publishes, and syncs it to the disk",
        load=save_all,
        rate=ITEMS,
        component=(r"mosquitto", r"\bdisk\b", r"block device"),
        mechanism=(r"writ(e|es|ing)", r"sav(e|es|ing)", r"\bdisk\b", r"f?sync", r"flush", r"block device", r"ext4|jbd2", r"storage", r"mosquitto\S* comput", r"\bcpu\b"),
        never=(r"(meters|python\S*) (sleep|comput)", r"mosquitto sleep"),
        needs=("mosquitto",),
    ),
]
