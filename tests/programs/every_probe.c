/*
 * Uses every probe once per turn, with each kind of name. Compiled as C and as C++, with probes
 * enabled and disabled.
 */
#include <longpole/longpole.h>

#if defined(__cplusplus)
#define HANDLE(name) (name)
static longpole::Queue queue{"made at run time", 5};
#define POINTER_TO_TEXT(text) std::string_view(text)
#else
#define HANDLE(name) (&(name))
static struct longpole_name queue = LONGPOLE_QUEUE_NAME("made at run time", 5, LONGPOLE_FIFO, LONGPOLE_ITEMS);
#define POINTER_TO_TEXT(text) (text)
#endif

static int turn(int i, const char *text)
{
	char buffer[10] = "changing";
	LONGPOLE_STATE("machine", "state");
	LONGPOLE_STATE("machine", POINTER_TO_TEXT(text));
	LONGPOLE_STATE(POINTER_TO_TEXT(text), "state");
	LONGPOLE_STATE(HANDLE(queue), buffer);
	LONGPOLE_STATE_HERE("state");
	LONGPOLE_BEGIN("plain");
	LONGPOLE_END("plain", i);
	LONGPOLE_BEGIN_HERE();
	LONGPOLE_END_HERE();
	LONGPOLE_SPAN("scope");
	LONGPOLE_SPAN("scope with argument", i);
	LONGPOLE_SPAN_HERE();
	LONGPOLE_SPAN(POINTER_TO_TEXT(text));
	LONGPOLE_SPAN(buffer);
	LONGPOLE_MARK("mark");
	LONGPOLE_MARK("mark", 1);
	LONGPOLE_MARK("mark", 1, &buffer);
	LONGPOLE_MARK("mark", 1, text, LONGPOLE_OBJECT_NEW);
	LONGPOLE_MARK_HERE(4);
	LONGPOLE_COUNTER("integer", i);
	LONGPOLE_COUNTER("real", 1.5);
	LONGPOLE_COUNTER(POINTER_TO_TEXT(text), -2.5);
	LONGPOLE_COUNTER_HERE(i);
	LONGPOLE_RPC_CALL("call", i);
	LONGPOLE_RPC_RETURNED("call", i);
	LONGPOLE_RPC_DISPATCH("call", i);
	LONGPOLE_RPC_REPLY("call", i);
	LONGPOLE_RPC_CALL_HERE(i);
	LONGPOLE_SIGNAL_SUBMIT("signal", 1);
	LONGPOLE_SIGNAL_RECEIVE("signal", 1);
	LONGPOLE_SIGNAL_WAIT("loop");
	LONGPOLE_SIGNAL_WAIT_HERE();
	LONGPOLE_QUEUE_PUT(HANDLE(queue), 1);
	LONGPOLE_QUEUE_GET(HANDLE(queue), 1);
	LONGPOLE_QUEUE_PEEK(HANDLE(queue), 1);
	LONGPOLE_QUEUE_RESERVE("literal", 1);
	LONGPOLE_QUEUE_WAIT_EMPTY("literal");
	LONGPOLE_QUEUE_WAIT_FULL("literal");
	LONGPOLE_QUEUE_SIZE(POINTER_TO_TEXT(text), 3);
	LONGPOLE_LINK(1, 2);
	LONGPOLE_FLOW(i);
	LONGPOLE_PACKET("interface", LONGPOLE_IN, buffer, sizeof buffer);
	LONGPOLE_PACKET_HERE(LONGPOLE_OUT, buffer, sizeof buffer);
	LONGPOLE_EVENT("event", "integer", 1, "real", 2.0, "text", "value", "unsigned", 3u);
	LONGPOLE_EVENT("event without a field");
	LONGPOLE_EVENT(POINTER_TO_TEXT(text), "pointer", (const void *)text);
	LONGPOLE_EVENT("event with eight", "a", 1, "b", 2, "c", 3, "d", 4, "e", 5, "f", 6, "g", 7, "h", text);
	const unsigned short shorts[3] = {1, 2, 65535};
	const float reals[2] = {0.5f, -2.0f};
	LONGPOLE_EVENT("event with arrays", "shorts", LONGPOLE_ARRAY(shorts, 3), "shorts_length", i, "reals", LONGPOLE_ARRAY(&reals[0], 2), "none",
	               LONGPOLE_ARRAY(&i, 0), "colour", LONGPOLE_ENUM(i % 3, "red=0;green=1;dark blue=2"), "text", text);
	LONGPOLE_EVENT_HERE("only", i);
	LONGPOLE_LOG("text");
	LONGPOLE_LOG(text);
	return i;
}

int main(int argc, char **argv)
{
	LONGPOLE_LABEL("tests -> every probe");
	for (int i = 0; i < 10 * argc; i++)
		turn(i, argv[0]);
	return 0;
}
