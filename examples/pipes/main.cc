// A chain that processes the log of a web site: three processes joined by pipes, and a fourth one
// that the second calls.
//
//     log_reader --raw_lines--> log_enricher --rich_lines--> log_writer
//                                    |  ^
//                                    v  |
//                               net_directory

#include "names.h"
#include "options.h"
#include "stages.h"

#include <cstdio>
#include <functional>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace pipes;

struct Process {
	const char *name;
	pid_t pid;
};

// Runs `work` in a child process, which does not outlive this one.
Process start(const char *name, const std::function<void()> &work)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid > 0)
		return {name, pid};
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, name);
	LONGPOLE_LABEL(name);
	work();
	_exit(0);
}

} // namespace

int main(int argc, char **argv)
{
	Options options = parse_options(argc, argv);
	std::printf("slow: %s\n", name(options.slow));
	std::fflush(stdout);

	Pipe raw = make_pipe(), rich = make_pipe();
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		die("socketpair");

	// Each process closes the ends that it does not use; otherwise no reader would see the end of a
	// pipe.
	auto close_pipe = [](const Pipe &pipe) {
		close(pipe.read_end);
		close(pipe.write_end);
	};
	std::vector<Process> processes;
	processes.push_back(start(N_DIRECTORY, [&] {
		close_pipe(raw);
		close_pipe(rich);
		close(sockets[0]);
		run_directory(sockets[1]);
	}));
	processes.push_back(start(N_WRITER, [&] {
		close_pipe(raw);
		close(sockets[0]);
		close(sockets[1]);
		run_writer(options, rich);
	}));
	processes.push_back(start(N_ENRICHER, [&] {
		close(sockets[1]);
		run_enricher(options, raw, rich, sockets[0]);
	}));
	processes.push_back(start(N_READER, [&] {
		close_pipe(rich);
		close(sockets[0]);
		close(sockets[1]);
		run_reader(options, raw);
	}));
	close_pipe(raw);
	close_pipe(rich);
	close(sockets[0]);
	close(sockets[1]);

	bool failed = false;
	for (const Process &process : processes) {
		int status;
		rusage usage;
		if (wait4(process.pid, &status, 0, &usage) < 0)
			die("wait");
		double cpu_ms = double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
		                double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
		std::printf("%-14s %8.0f ms of CPU time\n", process.name, cpu_ms);
		if (status != 0) {
			std::fprintf(stderr, "%s ended with status %#x\n", process.name, unsigned(status));
			failed = true;
		}
	}
	return failed;
}
