/*
 * Writes events, and at the same time random words into its own control file and rings, like a
 * program with invalid pointers.
 *
 *     scribbler MILLISECONDS SEED
 */
#define _GNU_SOURCE
#include <longpole/longpole.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile int done;
static uint64_t seed;

static uint64_t next(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1du;
}

static void *emit(void *unused)
{
	for (uint64_t number = 0; !done; number++) {
		LONGPOLE_MARK("scribbled", number);
		if (number % 1000 == 999)
			usleep(100);
	}
	return unused;
}

/*
 * Writes random words into a file. In a ring these are the words that belong to the recorder, and
 * the headers and events of sub-buffers, but not the words of the thread, which must survive.
 */
static void scribble(const char *path, int is_control)
{
	struct stat found;
	chmod(path, 0600);
	int file = open(path, O_RDWR);
	if (file < 0 || fstat(file, &found) < 0)
		return;
	uint64_t *words = (uint64_t *)mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (words == MAP_FAILED)
		return;
	for (int i = 0; i < 200; i++) {
		const uint64_t value = next() % 3 == 0 ? next() : next() % 70000;
		if (is_control) {
			/* The recorder's orders, and the description of the process. */
			const uint64_t at = next() % 2 == 0 ? next() % 8 : 12 + next() % 67;
			words[at] = value;
		} else if (next() % 2 == 0) {
			words[8 + next() % 8] = value;
		} else {
			words[512 + next() % ((uint64_t)found.st_size / 8 - 512)] = value;
		}
	}
	munmap(words, (size_t)found.st_size);
}

int main(int count, char **arguments)
{
	if (count < 3)
		return 2;
	const char *folder = getenv("LONGPOLE_RUNTIME_DIR");
	seed = strtoull(arguments[2], NULL, 10) * 2 + 1;
	pthread_t thread[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, emit, NULL);
	char own[32];
	snprintf(own, sizeof own, "%d-", getpid());
	for (int turn = 0; turn < atoi(arguments[1]); turn++) {
		DIR *directory = opendir(folder);
		for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
			char path[512];
			if (strncmp(entry->d_name, own, strlen(own)) != 0)
				continue;
			snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
			scribble(path, strstr(entry->d_name, ".control") != NULL);
		}
		if (directory != NULL)
			closedir(directory);
		usleep(1000);
	}
	done = 1;
	/* Damage that the program has done to itself is not tested, so no destructor runs. */
	_exit(0);
}
