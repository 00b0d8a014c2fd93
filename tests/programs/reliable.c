/*
 * Difficult situations for probes in a program, one for each first argument. For each name of a
 * probe it prints `NAME COUNT`, the number of events whose probe was enabled. Compiled as C and as
 * C++.
 *
 *     signals timer|thread COUNT     10,000 signals a second to a thread that always emits events,
 *                                    until COUNT were delivered; the handlers emit events, too
 *     jumps plain|stack COUNT        handlers that leave by siglongjmp, on the thread's stack or on
 *                                    one of their own
 *     steps COUNT                    the same after each of the first COUNT instructions of a probe
 *                                    that begins a sub-buffer
 *     interrupts COUNT               two handlers that emit events, after each two consecutive ones
 *                                    of the first COUNT instructions of a probe, within a
 *                                    sub-buffer and at its begin
 *     forks fork|clone|clone3|files|vfork|shared|exec|spawn COUNT EVENTS
 *                                    children that emit events while another thread does, too
 *     handler fork|clone COUNT       handlers that fork, even if they interrupted a probe; then the
 *                                    child continues in that probe
 *     first                          the first probe of the process is in the child of a vfork
 *     ended                          children of vfork that are killed in a probe
 *     threads COUNT AT_ONCE EVENTS   short-lived threads, AT_ONCE at a time
 *     silent COUNT EVENTS            threads that end in every way, also without their destructors
 *     cancelled COUNT                threads that are cancelled at any instruction
 *     destructors COUNT              probes in destructors of thread-specific values, also after
 *                                    the thread has returned its ring
 *     library PATH COUNT             a library with probes that is loaded and unloaded, and a
 *                                    thread that used it and continues
 *     libraries PATH COUNT           a thread with probes in the program and in a library, and
 *                                    signal handlers with a probe in the library
 *     processes COUNT EVENTS         children that are forked, emit events, and end
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <longpole/longpole.h>

#include <dlfcn.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(sigev_notify_thread_id)
#define sigev_notify_thread_id _sigev_un._tid
#endif

extern char **environ;

static char **words;
static int ended;

static int has_ended(void)
{
	return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}

static void say(const char *name, uint64_t count)
{
	printf("%s %llu\n", name, (unsigned long long)count);
	fflush(stdout);
}

/* The value of event `number` of series `series`. */
static uint64_t nth(uint64_t series, uint64_t number)
{
	return series << 32 | number;
}

static void pause_us(long us)
{
	const struct timespec time = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&time, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void spin(int turns)
{
	for (volatile int i = 0; i < turns; i++)
		;
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(signal, &action, NULL);
}

/* Sends SIGUSR1 to this thread periodically. */
static timer_t ticks(long every_us)
{
	timer_t timer;
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event.sigev_notify_thread_id = gettid();
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
		exit(1);
	const struct itimerspec times = {{0, every_us * 1000}, {0, every_us * 1000}};
	timer_settime(timer, 0, &times, NULL);
	return timer;
}

/* ---- signals */

static volatile uint64_t delivered;
static pthread_t target;

static void count_signal(int number)
{
	(void)number;
	LONGPOLE_MARK("handler", delivered);
	/*
	 * This text is too long for the side area. It is lost if the signal interrupted a probe, and is
	 * then counted as lost.
	 */
	if (delivered % 100 == 0)
		LONGPOLE_LOG("a text that does not fit into an entry of the side area, however one turns it");
	delivered = delivered + 1;
}

static void *send_signals(void *unused)
{
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!has_ended()) {
		next.tv_nsec += 100000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		pthread_kill(target, SIGUSR1);
	}
	return unused;
}

static int signals(void)
{
	const int by_timer = strcmp(words[2], "timer") == 0;
	const uint64_t wanted = strtoull(words[3], NULL, 10), begin = now_ns();
	/*
	 * Ticks that come while one is pending are merged, so a busy host delivers fewer per second.
	 * The limit is 300 times the normal duration.
	 */
	const uint64_t patience = 300 * wanted * 100000;
	pthread_t sender;
	timer_t timer = 0;
	uint64_t number = 0;
	handle(SIGUSR1, count_signal, SA_RESTART);
	target = pthread_self();
	if (by_timer)
		timer = ticks(100);
	else
		pthread_create(&sender, NULL, send_signals, NULL);
	while (delivered < wanted && now_ns() - begin < patience) {
		/*
		 * Events must be so frequent that some signals interrupt a probe, and so rare that the
		 * recorder can read all of them.
		 */
		for (int i = 0; i < 10; i++)
			LONGPOLE_MARK("main", number++);
		spin(10000);
	}
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	const uint64_t asked = (now_ns() - begin) / 100000;
	if (by_timer)
		timer_delete(timer);
	else
		pthread_join(sender, NULL);
	handle(SIGUSR1, SIG_IGN, 0);
	say("main", number);
	say("handler", delivered);
	say("log", (delivered + 99) / 100);
	say("asked", asked);
	return 0;
}

/* ---- jumps */

static sigjmp_buf place;
static volatile uint64_t begun, returned, left, jumps;

static void jump(int number)
{
	(void)number;
	LONGPOLE_MARK("handler", jumps);
	jumps = jumps + 1;
	siglongjmp(place, 1);
}

__attribute__((noinline)) static void emit_deep(int depth)
{
	volatile char room[64];
	room[0] = (char)depth;
	if (room[0] > 0) {
		emit_deep(depth - 1);
		return;
	}
	begun = begun + 1;
	LONGPOLE_MARK("main", begun - 1);
	returned = returned + 1;
	spin(100);
}

static int jumping(void)
{
	const uint64_t wanted = strtoull(words[3], NULL, 10);
	const int own = strcmp(words[2], "stack") == 0;
	static char room[65536];
	stack_t stack;
	memset(&stack, 0, sizeof stack);
	stack.ss_sp = room;
	stack.ss_size = sizeof room;
	if (own)
		sigaltstack(&stack, NULL);
	handle(SIGUSR1, jump, own ? SA_ONSTACK : 0);
	const timer_t timer = ticks(100);
	/*
	 * A jump leaves the signal blocked. If it were delivered before the jump has left the stack of
	 * the handler, handlers would pile up there on a slow host.
	 */
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (sigsetjmp(place, 1) != 0 && begun != returned) {
		/* The interrupted probe will not return, and it is unknown whether its event was
		 * written. */
		left = left + 1;
		returned = begun;
	}
	sigprocmask(SIG_UNBLOCK, &usr1, NULL);
	/*
	 * The depth varies, so that the next probe's stack frame is above or below that of the
	 * interrupted probe.
	 */
	while (jumps < wanted)
		emit_deep((int)(begun % 7));
	timer_delete(timer);
	say("main", begun);
	say("left", left);
	say("handler", jumps);
	return 0;
}

/*
 * Single steps are a flag of the processor. On other architectures than x86-64 no handler is
 * called.
 */
static void trap(void)
{
#if defined(__x86_64__)
	__asm__ __volatile__("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::: "memory", "cc");
#endif
}

static void trap_no_more(void)
{
#if defined(__x86_64__)
	__asm__ __volatile__("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::: "memory", "cc");
#endif
}

static volatile uint64_t steps;

static void step(int number)
{
	steps = steps - 1;
	if (steps == 0)
		jump(number);
}

static void emit_one(int stepped)
{
	begun = begun + 1;
	if (stepped)
		trap();
	LONGPOLE_MARK("main", begun - 1);
	if (stepped)
		trap_no_more();
	returned = returned + 1;
}

/* Emits events until the sub-buffer is full, so that the next probe begins a new one. */
static void fill_subbuffer(void)
{
	do {
		emit_one(0);
		if (begun % 64 == 0)
			pause_us(200);
	} while (longpole_thread->head + 16 <= longpole_thread->limit);
}

static int stepping(void)
{
	const uint64_t wanted = strtoull(words[2], NULL, 10);
	static volatile uint64_t turn;
	handle(SIGTRAP, step, 0);
	for (turn = 1; turn <= wanted; turn = turn + 1) {
		fill_subbuffer();
		steps = turn;
		if (sigsetjmp(place, 1) == 0) {
			emit_one(1);
		} else if (begun != returned) {
			left = left + 1;
			returned = begun;
		}
	}
	say("main", begun);
	say("left", left);
	say("handler", jumps);
	return 0;
}

static volatile uint64_t interrupts;

/* Emits an event in place of each of the last two steps. */
static void step_and_emit(int number)
{
	(void)number;
	if (steps == 0)
		return;
	steps = steps - 1;
	if (steps < 2) {
		LONGPOLE_MARK("handler", interrupts);
		interrupts = interrupts + 1;
	}
}

static int interrupting(void)
{
	const uint64_t wanted = strtoull(words[2], NULL, 10);
	handle(SIGTRAP, step_and_emit, 0);
	for (uint64_t turn = 2; turn < wanted + 2; turn++) {
		for (int is_full = 0; is_full < 2; is_full++) {
			if (is_full)
				fill_subbuffer();
			steps = turn;
			emit_one(1);
		}
	}
	say("main", begun);
	say("handler", interrupts);
	return 0;
}

/* ---- forks */

static uint64_t events;

static void emit_child(uint64_t series)
{
	for (uint64_t i = 0; i < events; i++)
		LONGPOLE_MARK("child", nth(series, i));
}

static void *emit_other(void *unused)
{
	uint64_t number = 0;
	while (!has_ended()) {
		LONGPOLE_MARK("other", number++);
		if (number % 64 == 0)
			pause_us(300);
	}
	say("other", number);
	return unused;
}

static pid_t raw_clone(unsigned long flags)
{
	return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, 0);
}

static pid_t raw_clone3(void)
{
	struct clone_args arguments;
	memset(&arguments, 0, sizeof arguments);
	arguments.exit_signal = SIGCHLD;
	return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static int run_shared(void *series)
{
	emit_child((uintptr_t)series);
	return 0;
}

/* A child that shares the memory of its parent and has its own stack. The parent waits for it. */
static pid_t clone_shared(uint64_t series)
{
	static char room[65536] __attribute__((aligned(16)));
	return clone(run_shared, room + sizeof room, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)(uintptr_t)series);
}

__attribute__((noinline)) static pid_t fork_memory(uint64_t series)
{
	const pid_t child = vfork();
	if (child == 0) {
		emit_child(series);
		_exit(0);
	}
	return child;
}

static pid_t run_image(uint64_t series, int spawn)
{
	char number[32];
	snprintf(number, sizeof number, "%llu", (unsigned long long)series);
	char image[] = "image";
	char *arguments[] = {words[0], image, number, words[4], NULL};
	pid_t child;
	if (spawn)
		return posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0 ? child : -1;
	child = fork();
	if (child != 0)
		return child;
	/* At this point the child has an open ring. */
	LONGPOLE_MARK("before", series);
	execv("/proc/self/exe", arguments);
	_exit(1);
}

static int forks(void)
{
	const char *how = words[2];
	const uint64_t count = strtoull(words[3], NULL, 10);
	events = strtoull(words[4], NULL, 10);
	pthread_t other;
	pthread_create(&other, NULL, emit_other, NULL);
	LONGPOLE_MARK("main", 0);
	/*
	 * The first execution of a probe takes a slower path. It must happen in the parent, before the
	 * children.
	 */
	const uint64_t each = events;
	events = 1;
	emit_child(count);
	events = each;
	for (uint64_t i = 0; i < count; i++) {
		pid_t child = -1;
		int status = 0, own = 1;
		if (strcmp(how, "fork") == 0)
			child = fork();
		else if (strcmp(how, "clone") == 0)
			child = raw_clone(SIGCHLD);
		else if (strcmp(how, "clone3") == 0)
			child = raw_clone3();
		else if (strcmp(how, "files") == 0)
			child = raw_clone(CLONE_FILES | SIGCHLD);
		else
			own = 0;
		if (strcmp(how, "vfork") == 0)
			child = fork_memory(i);
		else if (strcmp(how, "shared") == 0)
			child = clone_shared(i);
		else if (strcmp(how, "exec") == 0 || strcmp(how, "spawn") == 0)
			child = run_image(i, how[0] == 's');
		if (own && child == 0) {
			emit_child(i);
			_exit(0);
		}
		/* Parent and child emit at the same time, into what was one ring before the fork. */
		for (uint64_t number = 1 + i * 50; number <= (i + 1) * 50; number++)
			LONGPOLE_MARK("main", number);
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			fprintf(stderr, "child %d, status %d\n", (int)child, status);
			return 1;
		}
	}
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	pthread_join(other, NULL);
	say("main", 1 + count * 50);
	say("child", count * events + 1);
	if (strcmp(how, "exec") == 0)
		say("before", count);
	return 0;
}

/* ---- forks in handlers */

static volatile uint64_t forked, forks_wanted;
static volatile int is_child, raw;

static void fork_here(int number)
{
	(void)number;
	/* Ticks come until the timer is deleted, on a slow host several. */
	if (forked >= forks_wanted)
		return;
	const pid_t child = raw ? raw_clone(SIGCHLD) : fork();
	if (child == 0) {
		is_child = 1;
		/*
		 * After a raw clone no fork handler runs. The child must execute another probe before it
		 * continues in the interrupted one.
		 */
		if (raw)
			LONGPOLE_MARK("child", nth(forked, 0));
	} else if (child > 0) {
		forked = forked + 1;
	}
}

static int handlers_that_fork(void)
{
	uint64_t number = 0, ok = 0;
	forks_wanted = strtoull(words[3], NULL, 10);
	raw = strcmp(words[2], "clone") == 0;
	handle(SIGUSR1, fork_here, 0);
	const timer_t timer = ticks(2000);
	while (forked < forks_wanted && !is_child) {
		LONGPOLE_MARK("main", number++);
		spin(100);
	}
	if (is_child) {
		for (uint64_t i = raw ? 1 : 0; i < 20; i++)
			LONGPOLE_MARK("child", nth(forked, i));
		_exit(0);
	}
	timer_delete(timer);
	for (int status; wait(&status) > 0;)
		ok += status == 0;
	say("main", number);
	say("child", ok * 20);
	return ok == forked ? 0 : 1;
}

/* ---- vfork */

static int first_in_child(void)
{
	events = 10;
	waitpid(fork_memory(0), NULL, 0);
	/* The ring belongs to this thread, and no other thread may get it. */
	for (int i = 0; i < 20; i++) {
		pthread_t other;
		__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
		pthread_create(&other, NULL, emit_other, NULL);
		pthread_join(other, NULL);
		LONGPOLE_MARK("main", (uint64_t)i);
	}
	say("main", 20);
	say("child", 10);
	say("tid", (uint64_t)gettid());
	return 0;
}

__attribute__((noinline)) static void end_in_probe(void)
{
	const pid_t child = vfork();
	if (child == 0) {
		/* This is the state that a vfork child leaves if it is killed in a probe. */
		longpole_occupy(longpole_thread);
		kill(getpid(), SIGKILL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static int ended_children(void)
{
	for (uint64_t i = 0; i < 1000; i++) {
		LONGPOLE_MARK("main", i);
		if (i % 10 == 0 && longpole_is_open(longpole_thread))
			end_in_probe();
	}
	say("main", 1000);
	return 0;
}

/* ---- threads */

static pthread_barrier_t barrier;

static void *emit_thread(void *series)
{
	for (uint64_t i = 0; i < events; i++)
		LONGPOLE_MARK("thread", nth((uintptr_t)series, i));
	/* Each thread has a ring before the first one returns its own. */
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* Anonymous memory only. Rings are shared memory, which the recorder's figures contain. */
static uint64_t resident_kib(void)
{
	char line[256];
	unsigned long long found = 0;
	FILE *status = fopen("/proc/self/status", "r");
	while (status != NULL && fgets(line, sizeof line, status) != NULL && sscanf(line, "RssAnon: %llu", &found) != 1)
		;
	if (status != NULL)
		fclose(status);
	return found;
}

static int threads(void)
{
	const uint64_t count = strtoull(words[2], NULL, 10), at_once = strtoull(words[3], NULL, 10);
	pthread_t *all = (pthread_t *)calloc(at_once, sizeof *all);
	pthread_attr_t small;
	events = strtoull(words[4], NULL, 10);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	pthread_barrier_init(&barrier, NULL, (unsigned)at_once);
	for (uint64_t done = 0; done < count; done += at_once) {
		for (uint64_t i = 0; i < at_once; i++)
			if (pthread_create(&all[i], &small, emit_thread, (void *)(uintptr_t)(done + i)) != 0)
				return 1;
		for (uint64_t i = 0; i < at_once; i++)
			pthread_join(all[i], NULL);
		/*
		 * A thread that found the table locked at first got its ring later, and has used one more
		 * page of its stack for that.
		 */
		if (done < count / 2 && done + at_once >= count / 2)
			say("resident_half", resident_kib());
	}
	free(all);
	say("resident_last", resident_kib());
	say("thread", count * events);
	return 0;
}

static void *end_silently(void *series)
{
	const uintptr_t number = (uintptr_t)series;
	for (uint64_t i = 0; i < events; i++)
		LONGPOLE_MARK("thread", nth(number, i));
	if (number % 2 == 0)
		pthread_exit(NULL);
	/*
	 * The C library keeps the stack of this thread and its entry in the list of threads, because
	 * only the kernel knows of its end.
	 */
	__atomic_fetch_add(&jumps, 1, __ATOMIC_RELEASE);
	for (;;)
		syscall(SYS_exit, 0);
}

static int silent(void)
{
	const uint64_t count = strtoull(words[2], NULL, 10);
	events = strtoull(words[3], NULL, 10);
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setstacksize(&detached, 65536);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	for (uint64_t i = 0; i < count; i++) {
		pthread_t thread;
		const int joined = i % 4 == 0;
		if (pthread_create(&thread, joined ? NULL : &detached, end_silently, (void *)(uintptr_t)i) != 0)
			return 1;
		if (joined)
			pthread_join(thread, NULL);
		else if (i % 2 != 0)
			while (__atomic_load_n(&jumps, __ATOMIC_ACQUIRE) < (i + 1) / 2)
				pause_us(50);
	}
	pause_us(200000);
	say("resident_last", resident_kib());
	say("thread", count * events);
	/*
	 * The process also ends while a thread emits events. That thread waits at a barrier at the end;
	 * the barrier must be initialised, since waiting at one for zero threads divides by zero.
	 */
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_t other;
	pthread_create(&other, NULL, emit_thread, NULL);
	syscall(SYS_exit_group, 0);
	return 1;
}

struct cancelled {
	uint64_t series;
	volatile uint64_t begun, returned;
};

static void *emit_until_cancelled(void *argument)
{
	struct cancelled *own = (struct cancelled *)argument;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		own->begun = own->begun + 1;
		LONGPOLE_MARK("thread", nth(own->series, own->begun - 1));
		own->returned = own->returned + 1;
		spin(300);
	}
	return NULL;
}

static int cancelling(void)
{
	const uint64_t count = strtoull(words[2], NULL, 10);
	uint64_t all = 0, open = 0;
	for (uint64_t i = 0; i < count; i++) {
		struct cancelled thread = {i, 0, 0};
		pthread_t id;
		if (pthread_create(&id, NULL, emit_until_cancelled, &thread) != 0)
			return 1;
		while (thread.returned < 20 + i % 100)
			;
		pthread_cancel(id);
		pthread_join(id, NULL);
		all += thread.begun;
		open += thread.begun - thread.returned;
	}
	say("thread", all);
	say("left", open);
	return 0;
}

/* ---- destructors */

static pthread_key_t late[3];

static void emit_late(void *turns)
{
	const uintptr_t left_turns = (uintptr_t)turns;
	LONGPOLE_MARK("destructor", left_turns);
	/* The C library calls a destructor again if it set its value again, up to four times in
	 * total. */
	if (left_turns > 1)
		pthread_setspecific(late[0], (void *)(left_turns - 1));
}

static void *set_late(void *turns)
{
	pthread_setspecific(late[0], turns);
	LONGPOLE_MARK("thread", (uintptr_t)turns);
	return NULL;
}

static int destructors(void)
{
	const uint64_t count = strtoull(words[2], NULL, 10);
	uint64_t all = 0;
	/*
	 * This key is younger than the key of the probes, so this destructor runs after the ring was
	 * returned.
	 */
	pthread_key_create(&late[0], emit_late);
	for (uint64_t i = 0; i < count; i++) {
		pthread_t thread;
		const uintptr_t turns = 1 + i % 4;
		pthread_create(&thread, NULL, set_late, (void *)turns);
		pthread_join(thread, NULL);
		all += turns;
	}
	say("destructor", all);
	say("thread", count);
	return 0;
}

/* ---- a library */

static void (*volatile probe_of_library)(uint64_t number);
static volatile uint64_t asked, answered;

/* This thread uses each of the libraries. Afterwards it needs a larger ring. */
static void *use_library(void *number)
{
	const uint64_t many = *(const uint64_t *)number;
	for (;;) {
		while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == answered && !has_ended())
			pause_us(20);
		if (has_ended())
			break;
		LONGPOLE_MARK("main", answered);
		probe_of_library(nth(1, answered));
		__atomic_store_n(&answered, answered + 1, __ATOMIC_RELEASE);
	}
	for (uint64_t i = 0; i < many; i++) {
		LONGPOLE_MARK("many", i);
		if (i % 512 == 511)
			pause_us(2000);
	}
	say("ring", longpole_is_open(longpole_thread) ? longpole_thread->size : 0);
	return NULL;
}

static int library(void)
{
	const uint64_t count = strtoull(words[3], NULL, 10), many = 200000;
	pthread_t user, other;
	pthread_create(&other, NULL, emit_other, NULL);
	pthread_create(&user, NULL, use_library, (void *)(uintptr_t)&many);
	for (uint64_t i = 0; i < count; i++) {
		void *loaded = dlopen(words[2], RTLD_NOW);
		if (loaded == NULL) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		void *found = dlsym(loaded, "probe_of_library");
		memcpy((void *)&probe_of_library, &found, sizeof found);
		probe_of_library(i);
		__atomic_store_n(&asked, i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) != i + 1)
			pause_us(20);
		dlclose(loaded);
	}
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	pthread_join(user, NULL);
	pthread_join(other, NULL);
	say("library", 2 * count);
	say("main", count);
	say("many", many);
	return 0;
}

static volatile uint64_t handled;

static void probe_elsewhere(int signal)
{
	(void)signal;
	probe_of_library(nth(2, handled));
	handled = handled + 1;
}

/* A thread with probes in two libraries. Its signal handlers use a probe in the second one. */
static int libraries(void)
{
	const uint64_t count = strtoull(words[3], NULL, 10);
	void *loaded = dlopen(words[2], RTLD_NOW);
	void *found = loaded != NULL ? dlsym(loaded, "probe_of_library") : NULL;
	if (found == NULL)
		return 1;
	memcpy((void *)&probe_of_library, &found, sizeof found);
	handle(SIGUSR1, probe_elsewhere, SA_RESTART);
	timer_t timer = ticks(100);
	for (uint64_t i = 0; i < count; i++) {
		LONGPOLE_MARK("main", i);
		probe_of_library(nth(1, i));
		if (i % 128 == 127)
			pause_us(1000);
	}
	timer_delete(timer);
	say("ring", longpole_thread->size);
	say("main", count);
	say("library", count + handled);
	return 0;
}

/* ---- processes */

static int processes(void)
{
	const uint64_t count = strtoull(words[2], NULL, 10);
	events = strtoull(words[3], NULL, 10);
	for (uint64_t i = 0; i < count; i++) {
		const pid_t child = fork();
		if (child == 0) {
			emit_child(i);
			_exit(0);
		}
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			return 1;
	}
	say("child", count * events);
	return 0;
}

static int image(void)
{
	events = strtoull(words[3], NULL, 10);
	emit_child(strtoull(words[2], NULL, 10));
	return 0;
}

int main(int count, char **arguments)
{
	const struct {
		const char *name;
		int count;
		int (*run)(void);
	} ways[] = {
	    {"signals", 4, signals}, {"jumps", 4, jumping}, {"steps", 3, stepping}, {"interrupts", 3, interrupting}, {"forks", 5, forks}, {"handler", 4, handlers_that_fork},
	    {"first", 2, first_in_child}, {"ended", 2, ended_children}, {"threads", 5, threads}, {"silent", 4, silent},
	    {"cancelled", 3, cancelling}, {"destructors", 3, destructors}, {"library", 4, library}, {"libraries", 4, libraries}, {"processes", 4, processes}, {"image", 4, image},
	};
	words = arguments;
	for (size_t i = 0; count > 1 && i < sizeof ways / sizeof ways[0]; i++)
		if (strcmp(ways[i].name, arguments[1]) == 0 && count == ways[i].count)
			return ways[i].run();
	fprintf(stderr, "usage: reliable WAY ...\n");
	return 2;
}
