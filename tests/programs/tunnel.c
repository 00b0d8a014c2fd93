/*
 * Opens a TUN device that no process reads, and sends datagrams into it. The device drops what its
 * ring cannot hold.
 *
 * tunnel DEVICE ADDRESS COUNT
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", argv[1]);
	int device = open("/dev/net/tun", O_RDWR);
	if (device < 0 || ioctl(device, TUNSETIFF, &request) < 0) {
		perror("/dev/net/tun");
		return 1;
	}
	/* Waits until the device has noticed that it is open. */
	usleep(200000);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	char bytes[100];
	memset(bytes, 'x', sizeof bytes);
	for (int n = atoi(argv[3]); n > 0; n--)
		if (sendto(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&to, sizeof to) < 0)
			perror("sendto");
	return 0;
}
