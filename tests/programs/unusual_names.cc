/*
 * Unexpected names, labels and texts. Each text is the label, the thread's name, and the name of
 * one probe of every kind.
 *
 *     unusual_names        prints how many events it emitted
 */
#include <longpole/longpole.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <thread>

static uint64_t emitted;

static void emit(const std::string &text)
{
	/*
	 * The text of a name that is made at run time is stored with each event. A handle has a class
	 * of its own; its text is not copied and must exist as long as the handle is used.
	 */
	static std::deque<std::string> kept;
	static std::deque<longpole::Name> names;
	const std::string_view view = text;
	kept.push_back(text);
	names.emplace_back(kept.back().c_str());
	LONGPOLE_LABEL(view);
	prctl(PR_SET_NAME, text.c_str());
	LONGPOLE_MARK(view, 1);
	LONGPOLE_MARK(names.back(), 2);
	LONGPOLE_COUNTER(view, 3);
	LONGPOLE_BEGIN(view);
	LONGPOLE_END(view);
	LONGPOLE_STATE(view, view);
	LONGPOLE_QUEUE_PUT(view, 1);
	LONGPOLE_RPC_CALL(view, 4);
	LONGPOLE_SIGNAL_SUBMIT(view, 5);
	LONGPOLE_LOG(view);
	LONGPOLE_EVENT(view, "text", view, "number", 6);
	LONGPOLE_PACKET(view, 0, text.data(), text.size());
	emitted += 12;
}

int main()
{
	using namespace std::string_literals;
	const std::string texts[] = {
	    "../../../../etc/passwd", "/etc/passwd", "..", ".", "", "a\0b"s, "\0"s, "a\nb\rc\td", "\x1b[31mred\x1b[0m", "\x01\x02\x7f",
	    "\xff\xfe\xc0\x80 no text", "half \xe2\x82", std::string(10000, 'x'), std::string(10000, '/'), "\"quoted\\\" } ; event { name = \"x\"; };",
	    "a::b::c", "span:mark:state:", "%s%n%d", "<script>alert(1)</script>", "$(touch here) `touch here` ; touch here", "-rf", "*?[]{}",
	    std::string(250, '.') + "/" + std::string(250, '\xf0'), "\u202e\u0000 right to left"s,
	};
	for (const std::string &text : texts)
		std::thread(emit, text).join();
	std::printf("%llu\n", static_cast<unsigned long long>(emitted));
	return 0;
}
