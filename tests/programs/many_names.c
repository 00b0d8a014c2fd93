/* many_names COUNT: COUNT names that are made at run time, each used once with its number. */
#include <longpole/longpole.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const int count = argc == 2 ? atoi(argv[1]) : 0;
	struct longpole_name *names = calloc((size_t)count, sizeof *names);
	char *texts = malloc((size_t)count * 16);
	if (names == NULL || texts == NULL)
		return 1;
	for (int i = 0; i < count; i++) {
		snprintf(texts + i * 16, 16, "name %d", i);
		names[i].text = texts + i * 16;
		LONGPOLE_COUNTER(&names[i], i);
	}
	return 0;
}
