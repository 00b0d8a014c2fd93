/*
 * Executes every kind of probe once and calls getppid, then executes them 5,000 times and calls
 * getppid again. Between the two calls there must be no other system call.
 */
#include <longpole/longpole.h>

#include <sys/syscall.h>
#include <unistd.h>

static struct longpole_name queue = LONGPOLE_QUEUE_NAME("made at run time", 5, LONGPOLE_FIFO, LONGPOLE_ITEMS);

static void turn(int i, const char *text)
{
	LONGPOLE_STATE("machine", "state");
	LONGPOLE_SPAN("span", i);
	LONGPOLE_MARK("mark", i, text, LONGPOLE_FAILURE);
	LONGPOLE_MARK(text);
	LONGPOLE_COUNTER("real", 1.5);
	LONGPOLE_RPC_CALL("call", i);
	LONGPOLE_SIGNAL_SUBMIT("signal", 1);
	LONGPOLE_QUEUE_PUT(&queue, 1);
	LONGPOLE_LINK(1, 2);
	LONGPOLE_PACKET("interface", LONGPOLE_IN, text, 1);
	LONGPOLE_EVENT("event", "text", text, "number", i);
	LONGPOLE_LOG(text);
}

int main(int argc, char **argv)
{
	turn(argc, argv[0]);
	syscall(SYS_getppid);
	for (int i = 0; i < 5000; i++)
		turn(i, argv[0]);
	syscall(SYS_getppid);
	return 0;
}
