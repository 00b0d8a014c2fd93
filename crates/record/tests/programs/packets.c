/* Captures frames on two interfaces, in both directions: `packets COUNT`. */
#include <longpole/longpole.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	uint8_t frame[200];
	const int frames = count > 1 ? atoi(arguments[1]) : 10;
	LONGPOLE_LABEL("init -> nic/router");
	for (int i = 0; i < frames; i++) {
		memset(frame, i, sizeof frame);
		LONGPOLE_PACKET("eth0", LONGPOLE_IN, frame, sizeof frame);
		LONGPOLE_LOG("between two packets");
		LONGPOLE_PACKET("eth1", LONGPOLE_OUT, frame, 60 + i % 10);
	}
	return 0;
}
