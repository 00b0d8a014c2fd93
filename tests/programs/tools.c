/*
 * Uses the headers in the same folder as longpole.h, as C and as C++. The exit status is the number
 * of evaluated arguments. With LONGPOLE_DISABLE each evaluated argument is also printed.
 */
#include <longpole/sdt.h>

#include <longpole/auto.h>
#include <longpole/genode.h>
#include <longpole/points.h>
#include <longpole/tsc.h>
#include <longpole/utilisation.h>

#include <stdio.h>

static int evaluated;

static int number(int line)
{
#if defined(LONGPOLE_DISABLE)
	printf("line %d\n", line);
#endif
	evaluated++;
	return line > 0;
}

#define N number(__LINE__)

static void scopes(void)
{
	LONGPOLE_LOG_TSC(N);
	LONGPOLE_LOG_TSC_NAMED(N, N ? "a" : "b");
	LONGPOLE_TRACE_TSC(N);
	LONGPOLE_TRACE_TSC_NAMED(N, "name");
}

static void as_in_genode(void)
{
	GENODE_LOG_TSC(N)
	GENODE_LOG_TSC_NAMED(N, "log name");
	GENODE_TRACE_TSC(N)
	GENODE_TRACE_TSC_NAMED(N, "trace name");
	GENODE_TRACE_CHECKPOINT(N)
	GENODE_TRACE_CHECKPOINT_NAMED(N, "checkpoint");
	GENODE_TRACE_DURATION(N)
	{
		GENODE_TRACE_DURATION_NAMED(N, "duration");
	}
#if defined(__cplusplus)
	using Genode::Trace::Checkpoint;
	const unsigned long data = Genode::Trace::timestamp() != 0;
	Checkpoint("undefined", data, nullptr);
	Checkpoint("began", data, nullptr, Checkpoint::START);
	Checkpoint("began", data, nullptr, Checkpoint::END);
	Checkpoint("made", data, &evaluated, Checkpoint::OBJ_NEW);
	Checkpoint("failed", data, &evaluated, Checkpoint::FAILURE);
	Genode::Trace::Duration duration("takes", data);
#endif
}

static void points(void)
{
	struct longpole_point_result result;
	LONGPOLE_TRACE_POINT_START(N);
	LONGPOLE_TRACE_POINT_STOP(N);
	if (LONGPOLE_TRACE_POINT_RESULT(N, &result))
		LONGPOLE_TRACE_POINT_PRINT();
	LONGPOLE_TRACE_POINT_RESET();
}

int main(void)
{
	scopes();
	as_in_genode();
	points();
	LONGPOLE_MARK("mark", N);
	return evaluated;
}
