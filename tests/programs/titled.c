// A waiter and two cooks, each a process with its own title, which is written over the arguments as
// daemons do. The waiter gives the cooks work alternately, through pipes, until the time is over.
//
// usage: titled MILLISECONDS [FILE]
// FILE: the cgroup.procs of the control group into which the process moves first

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char *begin, *end;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void title(const char *text) {
    memset(begin, 0, end - begin);
    strncpy(begin, text, end - begin - 1);
}

static void cook(int number, int in, int out) {
    char text[64], order;
    snprintf(text, sizeof text, "shop: cook %d busy", number);
    title(text);
    while (read(in, &order, 1) == 1) {
        for (long long until = now() + 200000; now() < until;) {
        }
        if (write(out, &order, 1) != 1) {
            break;
        }
    }
    _exit(0);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: titled MILLISECONDS [FILE]\n");
        return 2;
    }
    long long until = now() + atoll(arguments[1]) * 1000000LL;
    if (count > 2) {
        FILE *group = fopen(arguments[2], "w");
        if (!group || fprintf(group, "%d\n", getpid()) < 0 || fclose(group)) {
            perror(arguments[2]);
            return 1;
        }
    }
    // The arguments and the environment behind them are contiguous.
    begin = arguments[0];
    end = begin + strlen(begin) + 1;
    for (int at = 1; at < count; at++) {
        end = arguments[at] + strlen(arguments[at]) + 1;
    }
    for (int at = 0; environ[at]; at++) {
        end = environ[at] == end ? end + strlen(environ[at]) + 1 : end;
    }
    int orders[2][2], dishes[2][2];
    for (int at = 0; at < 2; at++) {
        if (pipe(orders[at]) || pipe(dishes[at])) {
            return 1;
        }
        if (fork() == 0) {
            for (int before = 0; before <= at; before++) {
                close(orders[before][1]);
            }
            cook(4711 + at, orders[at][0], dishes[at][1]);
        }
    }
    title("shop: waiter --till secret");
    char order = 0;
    for (int at = 0; now() < until; at = !at) {
        if (write(orders[at][1], &order, 1) != 1 || read(dishes[at][0], &order, 1) != 1) {
            return 1;
        }
    }
    return 0;
}
