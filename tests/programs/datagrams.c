/*
 * Numbered datagrams over UDP.
 *
 * datagrams receive PORT ROOM PAUSE
 *     Receives with a socket buffer of ROOM bytes (0: the default of the system), and pauses for
 *     PAUSE microseconds after each datagram. SIGUSR1 means that nothing more is sent; 400 ms after
 *     the last datagram it then prints their number.
 * datagrams send ADDRESS PORT COUNT SIZE PAUSE
 *     Sends COUNT datagrams, and pauses for PAUSE microseconds after every 16th.
 */
#include <longpole/longpole.h>

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void is_over(int number)
{
	over = number;
}

static int receive(char **arg)
{
	int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
	int room = atoi(arg[1]);
	useconds_t pause = (useconds_t)atoi(arg[2]);
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arg[0])) };
	struct timeval wait = { .tv_usec = 400000 };
	static unsigned char data[65536];
	unsigned received = 0, disorder = 0, quiet = 0;
	uint32_t number, next = 0;

	/* Root may exceed net.core.rmem_max. */
	if (room > 0 && setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
		setsockopt(socket_fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	signal(SIGUSR1, is_over);
	if (bind(socket_fd, (struct sockaddr *)&at, sizeof at) != 0)
		return 1;
	/* After half a minute without a datagram (75 timeouts of 400 ms) no signal will come any
	 * more. */
	while (quiet < 75) {
		int was_over = over;
		ssize_t size;
		LONGPOLE_BEGIN("take");
		size = recv(socket_fd, data, sizeof data, 0);
		LONGPOLE_END("take");
		if (size < 0 && errno == EINTR)
			continue;
		if (size < (ssize_t)sizeof number) {
			if (was_over)
				break;
			quiet++;
			continue;
		}
		quiet = 0;
		memcpy(&number, data, sizeof number);
		disorder += number < next;
		next = number + 1;
		received++;
		if (pause > 0)
			usleep(pause);
	}
	printf("received %u disorder %u pid %d\n", received, disorder, (int)getpid());
	return 0;
}

static int transmit(char **arg)
{
	int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arg[1])) };
	uint32_t count = (uint32_t)atoi(arg[2]);
	size_t size = (size_t)atoi(arg[3]);
	useconds_t pause = (useconds_t)atoi(arg[4]);
	unsigned sent = 0;
	static unsigned char data[65536];

	if (inet_pton(AF_INET, arg[0], &to.sin_addr) != 1 || size < sizeof count || size > sizeof data)
		return 1;
	for (uint32_t number = 0; number < count; number++) {
		memcpy(data, &number, sizeof number);
		sent += sendto(socket_fd, data, size, 0, (struct sockaddr *)&to, sizeof to) == (ssize_t)size;
		if (number % 16 == 15 && pause > 0)
			usleep(pause);
	}
	printf("sent %u pid %d\n", sent, (int)getpid());
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "receive") == 0)
		return receive(argv + 2);
	if (argc == 7 && strcmp(argv[1], "send") == 0)
		return transmit(argv + 2);
	fputs("usage: datagrams receive PORT ROOM PAUSE | datagrams send ADDRESS PORT COUNT SIZE PAUSE\n", stderr);
	return 2;
}
