#!/usr/bin/env python3
"""Sends datagrams from one thread to another on the loopback device, one after the other."""
import socket
import threading

COUNT = 100

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))


def receive():
    for _ in range(COUNT):
        data, sender = receiver.recvfrom(2000)
        receiver.sendto(data[:4], sender)


thread = threading.Thread(target=receive)
thread.start()
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(COUNT):
    sender.sendto(number.to_bytes(4, "big") + bytes(600), receiver.getsockname())
    sender.recv(2000)
thread.join()
