"""A SysV message queue that holds a single message between two processes."""
from system import ITEMS, System

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/msg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
struct message { long type; char text[64]; };
double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int count, char **words) {
  int queue = msgget(IPC_PRIVATE, 0600);
  struct msqid_ds of;
  msgctl(queue, IPC_STAT, &of);
  of.msg_qbytes = atoi(words[1]);
  msgctl(queue, IPC_SET, &of);
  struct message it = {1};
  if (!fork()) {
    do msgrcv(queue, &it, 64, 0, 0); while (it.type == 1);
    return 0;
  }
  double end = now() + atoi(words[2]);
  long items = 0;
  for (; now() < end; items++) msgsnd(queue, &it, 64, 0);
  it.type = 2; msgsnd(queue, &it, 64, 0);
  wait(0); msgctl(queue, IPC_RMID, 0);
  printf("items %ld seconds %s\n", items, words[2]);
}
"""


def load(place):
    program = place.c("msgfeed", SOURCE)
    return [program, "16384" if place.fixed else "64", str(place.seconds)]


SYSTEMS = [System(
    "sysv_queue_of_one", "sysv-queue-depth",
    "the SysV message queue between two msgfeed processes holds one message: a switch for each",
    load, ITEMS, component=(r"msgfeed",),
    mechanism=(r"queue", r"msgsnd", r"msgrcv", r"wake", r"round trip", r"hand", r"turns",
               r"for (one another|each other)", r"\bfull\b", r"context switch"),
    never=(r"disk", r"\bdns\b", r"page fault"), needs=("gcc",))]
