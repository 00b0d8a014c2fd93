// Names that are made at run time, as in a C++ program: strings, temporaries, views without a
// terminating NUL, null pointers. Each name is such that its event shows whether the whole text
// existed when the event was written.
#include <longpole/longpole.h>

#include <string>

static std::string made(const char *what)
{
	// This is longer than the internal buffer of a string, so AddressSanitizer would find a
	// dangling one.
	return std::string("a name that is made at run time for a ") + what;
}

int main()
{
	LONGPOLE_LABEL(made("label"));
	LONGPOLE_LABEL(made("label").c_str());
	const std::string name = made("span");
	const std::string_view part = std::string_view(name).substr(0, 6);
	const char *none = nullptr;
	longpole::Queue queue{made("queue"), 3};
	for (int i = 0; i < 3; i++) {
		LONGPOLE_STATE("machine", made("state"));
		LONGPOLE_STATE(made("machine"), part);
		LONGPOLE_STATE(queue, "full");
		LONGPOLE_STATE("machine", none);
		LONGPOLE_SPAN(name);
		LONGPOLE_SPAN(part, i);
		LONGPOLE_BEGIN(made("begin"));
		LONGPOLE_END(made("begin"));
		LONGPOLE_MARK(made("mark"), i);
		LONGPOLE_MARK(none);
		LONGPOLE_MARK(&"a literal"[2]);
		LONGPOLE_MARK("ab"[0] == 'a' ? "one" : "other");
		LONGPOLE_COUNTER(made("counter"), i);
		LONGPOLE_RPC_CALL(made("call"), i);
		LONGPOLE_SIGNAL_SUBMIT(made("signal"), 1);
		LONGPOLE_QUEUE_PUT(made("queue"), 1);
		LONGPOLE_QUEUE_PUT(queue, 1);
		LONGPOLE_PACKET(made("packet"), LONGPOLE_IN, "bytes", 5);
		LONGPOLE_EVENT(made("event"), "text", made("field"), "none", none);
		LONGPOLE_EVENT(queue, "i", i);
		LONGPOLE_LOG(made("log"));
		LONGPOLE_LOG(part);
		LONGPOLE_LOG(none);
	}
	return 0;
}
