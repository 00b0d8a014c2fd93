/*
 * Objects that are created and deleted.
 *
 *     objects processes       an object at one address in a process and in its child: two lives
 *     objects again COUNT     COUNT lives at one address, while another object exists all the time
 */
#include <longpole/longpole.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char here, there;

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "processes") == 0) {
		LONGPOLE_MARK("object", 1, &here, LONGPOLE_OBJECT_NEW);
		const pid_t child = fork();
		if (child == 0) {
			LONGPOLE_MARK("object", 2, &here, LONGPOLE_OBJECT_NEW);
			LONGPOLE_MARK("object", 2, &here, LONGPOLE_OBJECT_DELETE);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		LONGPOLE_MARK("object", 1, &here, LONGPOLE_OBJECT_DELETE);
	}
	if (argc > 2 && strcmp(argv[1], "again") == 0) {
		LONGPOLE_MARK("object", 1, &here, LONGPOLE_OBJECT_NEW);
		for (int i = atoi(argv[2]); i > 0; i--) {
			LONGPOLE_MARK("object", 2, &there, LONGPOLE_OBJECT_NEW);
			LONGPOLE_MARK("object", 2, &there, LONGPOLE_OBJECT_DELETE);
		}
		LONGPOLE_MARK("object", 1, &here, LONGPOLE_OBJECT_DELETE);
	}
	return 0;
}
