/*
 * jumps TURNS: functions that are left by longjmp again and again. Built with
 * -finstrument-functions.
 */
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf place;

static __attribute__((noinline)) void leaves(void)
{
	longjmp(place, 1);
}

static __attribute__((noinline)) void within(void)
{
	leaves();
}

static __attribute__((noinline)) void returns(void)
{
}

static __attribute__((noinline)) void jumps(void)
{
	if (setjmp(place) == 0)
		within();
	returns();
}

int main(int argc, char **argv)
{
	for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; i--)
		jumps();
	return 0;
}
