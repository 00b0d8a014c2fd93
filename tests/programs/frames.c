/*
 * For each line of the input, a number N: captures N frames on each of two interfaces, then prints
 * a line.
 */
#include <longpole/longpole.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	uint8_t frame[200];
	int frames;
	while (scanf("%d", &frames) == 1) {
		for (int i = 0; i < frames; i++) {
			memset(frame, i, sizeof frame);
			LONGPOLE_PACKET("eth0", LONGPOLE_IN, frame, sizeof frame);
			LONGPOLE_PACKET("eth1", LONGPOLE_OUT, frame, 60 + i % 10);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
