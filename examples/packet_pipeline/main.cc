// packet_pipeline: starts the four processes, stops them, and reports the result.
//
// Each process executes this program again with the name of its role, so that tools show four
// different programs. The processes share one memfd and some descriptors, which the launcher makes.
// The launcher itself has no probe. If a process ends too early, or the launcher receives SIGINT or
// SIGTERM, the others are stopped.

#include "system.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poll.h>
#include <random>
#include <signal.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

using namespace pipeline;

namespace {

[[noreturn]] void die(const char *what)
{
	std::perror(what);
	std::exit(1);
}

const char *const ROLE_NAMES[ROLES] = {N_SOURCE, N_ROUTER, N_SINK, N_TIMER};

System *map(int fd)
{
	// Populated in advance, so that no page fault happens during the measurement.
	void *p = mmap(nullptr, sizeof(System), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		die("packet_pipeline: mmap");
	return static_cast<System *>(p);
}

uint64_t cpu_ns()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

int run_role(Role role, int fd)
{
	// The launcher stops all roles if it is interrupted, and a role is killed if the launcher dies.
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == 1)
		return 1;

	System &s = *map(fd);
	// Each end of the timer's socket is open in one process only, so the other side notices its
	// end.
	if (role != ROUTER)
		close(s.timer_client);
	if (role != TIMER)
		close(s.timer_server);

	const uint64_t before = cpu_ns();
	int status = 2;
	switch (role) {
	case SOURCE:
		prctl(PR_SET_NAME, N_SOURCE_THREAD);
		LONGPOLE_LABEL(N_SOURCE);
		status = run_source(s);
		break;
	case ROUTER:
		prctl(PR_SET_NAME, N_ROUTER_THREAD);
		LONGPOLE_LABEL(N_ROUTER);
		status = run_router(s);
		break;
	case SINK:
		prctl(PR_SET_NAME, N_SINK_THREAD);
		LONGPOLE_LABEL(N_SINK);
		status = run_sink(s);
		break;
	case TIMER:
		prctl(PR_SET_NAME, N_TIMER_THREAD);
		LONGPOLE_LABEL(N_TIMER);
		status = run_timer(s);
		break;
	case ROLES:
		break;
	}
	s.cpu_ns[role].store(cpu_ns() - before);
	return status;
}

class Launcher
{
public:
	explicit Launcher(const Options &options);
	int run();

private:
	void start(Role);
	void stop();
	bool reap(); // Returns false if a process failed, or ended before it was asked to stop.

	int fd_;
	System *s_;
	pid_t pids_[ROLES] = {};
	bool stopping_ = false;
	bool failed_ = false;
};

Launcher::Launcher(const Options &options)
{
	fd_ = memfd_create("packet_pipeline", 0);
	if (fd_ < 0 || ftruncate(fd_, sizeof(System)) < 0)
		die("packet_pipeline: shared memory");
	s_ = map(fd_);
	// Everything else starts as zero, that is, with empty queues and no signal.
	s_->options = options;
	for (int &doorbell : s_->signals.doorbell)
		if ((doorbell = eventfd(0, 0)) < 0)
			die("packet_pipeline: eventfd");
	if ((s_->finished = eventfd(0, 0)) < 0)
		die("packet_pipeline: eventfd");
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
		die("packet_pipeline: socketpair");
	s_->timer_client = ends[0];
	s_->timer_server = ends[1];
}

// Pins this process to the first or the last CPU that it may use.
static void stay_on(bool first)
{
	cpu_set_t all, one;
	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	int at = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && !(first && at >= 0); cpu++)
		if (CPU_ISSET(cpu, &all))
			at = cpu;
	CPU_SET(at, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

void Launcher::start(Role role)
{
	pid_t pid = fork();
	if (pid < 0)
		die("packet_pipeline: fork");
	if (pid == 0) {
		if (s_->options.apart && (role == ROUTER || role == TIMER))
			stay_on(role == ROUTER);
		const std::string number = std::to_string(role), fd = std::to_string(fd_);
		execl("/proc/self/exe", ROLE_NAMES[role], "--role", number.c_str(), fd.c_str(), nullptr);
		die("packet_pipeline: exec");
	}
	pids_[role] = pid;
}

void Launcher::stop()
{
	stopping_ = true;
	s_->stop.store(1);
	for (uint32_t role = 0; role < ROLES; role++)
		ring(s_->signals, Role(role));
}

bool Launcher::reap()
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		for (pid_t &p : pids_)
			if (p == pid)
				p = 0;
		const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (!good || !stopping_) {
			std::fprintf(stderr, "packet_pipeline: process %d %s\n", int(pid), good ? "ended too early" : "failed");
			failed_ = true;
		}
	}
	return !failed_;
}

int Launcher::run()
{
	sigset_t set;
	sigemptyset(&set);
	for (int signal : {SIGINT, SIGTERM, SIGCHLD})
		sigaddset(&set, signal);
	sigprocmask(SIG_BLOCK, &set, nullptr);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		die("packet_pipeline: signalfd");

	std::vector<Role> order{SOURCE, ROUTER, SINK, TIMER};
	if (s_->options.direct)
		order = {SOURCE, SINK};
	const uint32_t count = uint32_t(order.size());
	if (s_->options.order_seed) {
		std::mt19937 random(s_->options.order_seed);
		std::shuffle(order.begin(), order.end(), random);
	}
	for (Role role : order)
		start(role);
	close(s_->timer_client);
	close(s_->timer_server);

	bool started = false;
	uint64_t end = 0;
	for (;;) {
		// Until all processes are ready the launcher checks every millisecond; then it only sleeps.
		if (!started && s_->ready.load() == count) {
			started = true;
			if (s_->options.seconds > 0)
				end = now_ns() + uint64_t(s_->options.seconds * 1e9);
			s_->signals.pending[SOURCE_START].count.fetch_add(1);
			ring(s_->signals, SOURCE);
		}
		timespec left{0, 1000000}, *timeout = started ? nullptr : &left;
		if (end && !stopping_) {
			const uint64_t now = now_ns();
			if (now >= end)
				stop();
			else {
				left = {time_t((end - now) / 1000000000), long((end - now) % 1000000000)};
				timeout = &left;
			}
		}
		if (std::all_of(std::begin(pids_), std::end(pids_), [](pid_t p) { return !p; }))
			break;
		pollfd fds[2] = {{signals, POLLIN, 0}, {s_->finished, POLLIN, 0}};
		if (ppoll(fds, 2, timeout, nullptr) <= 0)
			continue;
		if (fds[1].revents) {
			uint64_t n;
			(void)!read(s_->finished, &n, sizeof(n));
			stop();
		}
		signalfd_siginfo info;
		while (read(signals, &info, sizeof(info)) == ssize_t(sizeof(info))) {
			if (info.ssi_signo == SIGCHLD ? !reap() : true)
				if (!stopping_)
					stop();
		}
	}
	if (const uint64_t packets = s_->received.load()) {
		std::printf("CPU time per packet:");
		for (Role role : {SOURCE, ROUTER, SINK, TIMER})
			if (!s_->options.direct || role == SOURCE || role == SINK)
				std::printf(" %s %llu ns", ROLE_NAMES[role],
				            static_cast<unsigned long long>(s_->cpu_ns[role].load() / packets));
		std::printf("\n");
	}
	return failed_ ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 4 && std::strcmp(argv[1], "--role") == 0) {
		const int role = std::atoi(argv[2]);
		if (role < 0 || role >= int(ROLES))
			return 2;
		return run_role(Role(role), std::atoi(argv[3]));
	}
	return Launcher(parse_options(argc, argv)).run();
}
