/*
 * The process's side of the runtime directory: the control file, whose first page is mapped over a
 * page of .bss so that checking if anything is recorded is one load, and the table through which
 * the libraries of a process share their rings.
 *
 * Nothing here is on a hot path, and nothing here may make the program fail: if a resource is not
 * available, the process is not recorded, and its control file, if it has one, states the reason.
 */
#ifndef LONGPOLE_PROCESS_H
#define LONGPOLE_PROCESS_H

#include "abi.h"
#include "system.h"

#if defined(__cplusplus)
extern "C" {
#endif

/*
 * Each of these objects exists once per library, however many source files the library has: they
 * are in COMDAT sections and hidden. Compilers offer that only for C++ inline variables, but C and
 * C++ files of one library must share the objects, so they are written in assembly. `.ifndef` is
 * needed for link-time optimisation, which merges several files into one.
 */
#define LONGPOLE_TEXT__(value) #value
#define LONGPOLE_TEXT_(value) LONGPOLE_TEXT__(value)
#if defined(__aarch64__)
#define LONGPOLE_PAGE_TEXT_ "65536"
#define LONGPOLE_WORD_TEXT_ ".xword"
#else
#define LONGPOLE_PAGE_TEXT_ "4096"
#define LONGPOLE_WORD_TEXT_ ".quad"
#endif
__asm__(".ifndef longpole_page\n"
        ".pushsection .bss.longpole_page,\"awG\",@nobits,longpole_page,comdat\n"
        ".weak longpole_page\n.hidden longpole_page\n.type longpole_page,@object\n.size longpole_page," LONGPOLE_PAGE_TEXT_ "\n"
        ".balign " LONGPOLE_PAGE_TEXT_ "\nlongpole_page:\n.zero " LONGPOLE_PAGE_TEXT_ "\n"
        ".popsection\n.endif\n"
        ".ifndef longpole_library\n"
        ".pushsection .bss.longpole_library,\"awG\",@nobits,longpole_library,comdat\n"
        ".weak longpole_library\n.hidden longpole_library\n.type longpole_library,@object\n.size longpole_library,64\n"
        ".balign 64\nlongpole_library:\n.zero 64\n"
        ".popsection\n.endif\n"
        ".ifndef longpole_thread\n"
        ".pushsection .tdata.longpole_thread,\"awTG\",@progbits,longpole_thread,comdat\n"
        ".weak longpole_thread\n.hidden longpole_thread\n.type longpole_thread,@tls_object\n.size longpole_thread,8\n"
        ".balign 8\nlongpole_thread:\n" LONGPOLE_WORD_TEXT_ " longpole_library+64\n"
        ".popsection\n.endif\n");

/* A thread's ring as this process sees it. The libraries of the process share it. */
struct longpole_entry {
	struct longpole_ring *ring;
	/* thread id of the owner; 0: the owner has ended, and another thread may take the ring */
	int32_t tid;
	uint32_t users; /* one bit for each library that uses the ring in that thread */
};

#define LONGPOLE_ENTRIES 65536u

/* Private memory of the process that fork wipes: a child finds alive == 0, even if it was made by a
 * raw clone. */
struct longpole_process {
	uint32_t alive;
	uint32_t lock;
	uint32_t entries;
	uint32_t libraries; /* one bit for each connected library of this process */
	uint64_t retry; /* counter at which making a ring may be tried again after memory ran out */
	struct longpole_sites *sites;
	char directory[208];
	char stem[32]; /* <pid>-<tag> */
	struct longpole_entry entry[LONGPOLE_ENTRIES];
};

/* The state of one library. */
struct longpole_library {
	struct longpole_process *process;
	uint32_t state; /* 0: untouched, 1: being set up, 2: set up (even if that failed), 3: unloaded */
	uint32_t key;   /* key of the destructor at the end of a thread, plus one */
	uint32_t atfork;
	uint32_t forking; /* 1 while a thread connects the process again after a fork */
	uint32_t slot; /* the library's bit among the libraries of the process */
	/* user id under which it connected, if the path of the directory contains it; else
	 * LONGPOLE_ANY_USER */
	uint32_t user;
	uint32_t spare[6];
	uint64_t closed; /* always 0: the word before the header of LONGPOLE_NO_RING */
};

extern struct longpole_control longpole_page __attribute__((visibility("hidden")));
extern struct longpole_library longpole_library __attribute__((visibility("hidden")));
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_ring *longpole_thread __attribute__((visibility("hidden")));
#else
/* Initial-exec: 1 ns cheaper than a descriptor, sufficient for some 200 libraries that are loaded
 * at run time. */
extern __thread struct longpole_ring *longpole_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

/* The bit that all libraries share for which there is no bit left. It is never cleared, because it
 * is not known which other libraries have it. */
#define LONGPOLE_SLOT_OF_MANY (1u << 31)

/*
 * The word before the header of a ring is in a private page that a fork wipes. So a single load is
 * enough for a thread to see if it has a ring, and for a child, even one made by a raw clone, to
 * see that the ring is its parent's, which it must not touch.
 */
#define LONGPOLE_NO_RING ((struct longpole_ring *)(void *)(&longpole_library + 1))

LONGPOLE_INLINE int longpole_is_open(const struct longpole_ring *ring)
{
	return *((const uint64_t *)(const void *)ring - 1) != 0;
}

/* Maps the file of a ring behind a private page. */
LONGPOLE_SLOW struct longpole_ring *longpole_map_ring(uint64_t size, int file)
{
	char *page = (char *)longpole_map_private(NULL, 0, LONGPOLE_CONTROL_SIZE + LONGPOLE_RING_DATA + size);
	if (page == NULL)
		return NULL;
	longpole_call(SYS_madvise, (uintptr_t)page, LONGPOLE_CONTROL_SIZE, 18 /* MADV_WIPEONFORK */, 0, 0, 0);
	struct longpole_ring *ring = (struct longpole_ring *)longpole_map(page + LONGPOLE_CONTROL_SIZE, 1, LONGPOLE_RING_DATA + size, file, 1);
	if (ring == NULL)
		longpole_unmap(page, LONGPOLE_CONTROL_SIZE + LONGPOLE_RING_DATA + size);
	else
		*((uint64_t *)(void *)ring - 1) = 1;
	return ring;
}

LONGPOLE_SLOW void longpole_unmap_ring(struct longpole_ring *ring, uint64_t size)
{
	longpole_unmap((char *)ring - LONGPOLE_CONTROL_SIZE, LONGPOLE_CONTROL_SIZE + LONGPOLE_RING_DATA + size);
}

#define LONGPOLE_ANY_USER 0xffffffffu

/*
 * Returns 1 if the current process is not the one that connected: it is the child of a fork, or it
 * changed its user id before it had a ring, so that it can no longer access the directory of the
 * first user.
 */
LONGPOLE_SLOW int longpole_is_another(const struct longpole_process *process)
{
	const uint32_t user = longpole_library.user;
	return !process->alive || (user != LONGPOLE_ANY_USER && __atomic_load_n(&longpole_page.rings, __ATOMIC_RELAXED) == 0 &&
	                           user != (uint32_t)longpole_call(SYS_geteuid, 0, 0, 0, 0, 0, 0));
}

LONGPOLE_SLOW void longpole_connect_new_process(void);

/* The process's table. If the process is a new one, it connects first. */
LONGPOLE_INLINE struct longpole_process *longpole_own_process(void)
{
	if (longpole_library.process != NULL && LONGPOLE_UNLIKELY(longpole_is_another(longpole_library.process)))
		longpole_connect_new_process();
	return longpole_library.process;
}

/* Opens a file of the runtime directory for writing. Its mode forbids writing, except for the
 * moment of opening. */
LONGPOLE_SLOW long longpole_open_writable(int directory, const char *name)
{
	struct longpole_stat stat;
	const uint32_t self = (uint32_t)longpole_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
	for (int attempt = 0; attempt < 100; attempt++) {
		long readable = longpole_open(directory, name, LONGPOLE_O_RDONLY | LONGPOLE_O_NOFOLLOW, 0);
		if (readable < 0)
			return readable;
		if (longpole_stat_of((int)readable, &stat) < 0 || (stat.mode & 0170000) != 0100000 || stat.user != self) {
			longpole_close((int)readable);
			return -1;
		}
		longpole_call(SYS_fchmod, (uintptr_t)readable, 0600, 0, 0, 0, 0);
		long writable = longpole_open(directory, name, LONGPOLE_O_RDWR | LONGPOLE_O_NOFOLLOW, 0);
		longpole_call(SYS_fchmod, (uintptr_t)readable, 0400, 0, 0, 0, 0);
		longpole_close((int)readable);
		/* Another process may have removed the permission between our two calls. */
		if (writable != -13 /* EACCES */)
			return writable;
	}
	return -13;
}

/*
 * Makes a file that is complete before it gets its name from `publish`. Returns the open file or
 * -errno. The temporary name is unique per thread; the recorder removes what a killed process left
 * behind.
 */
LONGPOLE_SLOW long longpole_create(int directory, char *temporary, size_t capacity, uint64_t size)
{
	size_t length = longpole_append(temporary, capacity, 0, ".new-");
	length = longpole_append_number(temporary, capacity, length, (uint64_t)longpole_gettid(), 10, 0);
	length = longpole_append(temporary, capacity, length, "-");
	longpole_append_number(temporary, capacity, length, longpole_counter(), 16, 0);
	long file = longpole_open(directory, temporary, LONGPOLE_O_RDWR | LONGPOLE_O_CREAT | LONGPOLE_O_EXCL | LONGPOLE_O_NOFOLLOW, 0400);
	if (file < 0)
		return file;
	/* Allocates the memory now, so that a later store cannot find the file system full. */
	long result = longpole_call(SYS_fallocate, (uintptr_t)file, 0, 0, size, 0, 0);
	if (result < 0) {
		longpole_close((int)file);
		longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)temporary, 0, 0, 0, 0);
		return result;
	}
	return file;
}

LONGPOLE_SLOW long longpole_publish(int directory, const char *temporary, const char *name)
{
	long result = longpole_call(SYS_linkat, (uintptr_t)directory, (uintptr_t)temporary, (uintptr_t)directory, (uintptr_t)name, 0, 0);
	longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)temporary, 0, 0, 0, 0);
	return result;
}

/* Opens a runtime directory that only this user can access, or returns -errno. */
LONGPOLE_SLOW long longpole_open_directory(const char *path)
{
	struct longpole_stat stat;
	long directory = longpole_open((int)LONGPOLE_AT_FDCWD, path, LONGPOLE_O_RDONLY | LONGPOLE_O_DIRECTORY | LONGPOLE_O_NOFOLLOW, 0);
	if (directory < 0)
		return directory;
	const uint32_t self = (uint32_t)longpole_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
	if (longpole_stat_of((int)directory, &stat) < 0 || stat.user != self || (stat.mode & 077) != 0) {
		longpole_close((int)directory);
		return -13; /* EACCES */
	}
	return directory;
}

/* The current directory at the start of the library. Relative paths refer to it, because the
 * program may change its directory later. */
LONGPOLE_SLOW char *longpole_relative_path(void)
{
	static char path[208];
	return path;
}

/* The path of the runtime directory; returns 0 if it is too long. `user` gets the user id that the
 * path contains, or LONGPOLE_ANY_USER. */
LONGPOLE_SLOW int longpole_directory_path(char *path, size_t capacity, uint32_t *user)
{
	const char *wanted = longpole_libc_getenv("LONGPOLE_RUNTIME_DIR");
	char *first = longpole_relative_path();
	size_t length = 0;
	*user = LONGPOLE_ANY_USER;
	if (wanted == NULL || wanted[0] == 0) {
		*user = (uint32_t)longpole_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
		length = longpole_append(path, capacity, 0, "/dev/shm/longpole-");
		longpole_append_number(path, capacity, length, *user, 10, 0);
		return 1;
	}
	if (wanted[0] != '/') {
		if (first[0] != '/' && longpole_call(SYS_getcwd, (uintptr_t)first, capacity, 0, 0, 0, 0) < 0)
			return 0;
		length = longpole_append(path, capacity, longpole_append(path, capacity, 0, first), "/");
	}
	if (length + longpole_length(wanted, capacity) >= capacity)
		return 0;
	longpole_append(path, capacity, length, wanted);
	return path[0] == '/';
}

/* Maps the site table, and creates it if necessary. */
LONGPOLE_SLOW struct longpole_sites *longpole_open_sites(int directory)
{
	const size_t whole = sizeof(struct longpole_sites) + LONGPOLE_SITE_ARENA_MAXIMUM;
	long file = longpole_open_writable(directory, "sites");
	if (file == -2 /* ENOENT */) {
		char temporary[64];
		file = longpole_create(directory, temporary, sizeof temporary, sizeof(struct longpole_sites) + LONGPOLE_SITE_ARENA_STEP);
		if (file < 0)
			return NULL;
		struct longpole_sites *sites = (struct longpole_sites *)longpole_map(NULL, 0, whole, (int)file, 0);
		if (sites != NULL) {
			sites->magic = LONGPOLE_ABI_MAGIC;
			sites->version = LONGPOLE_ABI_VERSION;
			sites->arena_next = 8; /* offset 0 marks a free slot */
			sites->arena_size = LONGPOLE_SITE_ARENA_STEP;
		}
		long published = longpole_publish(directory, temporary, "sites");
		longpole_close((int)file);
		if (sites == NULL || published == 0)
			return sites;
		longpole_unmap(sites, whole);
		file = longpole_open_writable(directory, "sites");
	}
	if (file < 0)
		return NULL;
	struct longpole_stat stat;
	struct longpole_sites *sites = NULL;
	if (longpole_stat_of((int)file, &stat) == 0 && stat.size >= sizeof(struct longpole_sites) + LONGPOLE_SITE_ARENA_STEP)
		sites = (struct longpole_sites *)longpole_map(NULL, 0, whole, (int)file, 0);
	longpole_close((int)file);
	if (sites != NULL && (sites->magic != LONGPOLE_ABI_MAGIC || sites->version != LONGPOLE_ABI_VERSION)) {
		longpole_unmap(sites, whole);
		sites = NULL;
	}
	return sites;
}

/* Returns 1 if a living recorder holds the lock on a file. */
LONGPOLE_SLOW int longpole_is_locked(int file)
{
	struct {
		int16_t type, whence;
		int64_t start, length;
		int32_t pid;
	} lock = {0 /* F_RDLCK */, 0, 0, 0, 0};
	return longpole_call(SYS_fcntl, (uintptr_t)file, 36 /* F_OFD_GETLK */, (uintptr_t)&lock, 0, 0, 0) == 0 && lock.type == 1 /* F_WRLCK */;
}

/*
 * Reads the orders in a session file; returns 0 if no living recorder holds the lock on the file.
 */
LONGPOLE_SLOW int longpole_read_session(int directory, const char *name, struct longpole_orders *orders)
{
	struct longpole_session session;
	long file = longpole_open(directory, name, LONGPOLE_O_RDONLY | LONGPOLE_O_NOFOLLOW, 0);
	if (file < 0)
		return 0;
	const int held = longpole_call(SYS_pread64, (uintptr_t)file, (uintptr_t)&session, sizeof session, 0, 0, 0) == (long)sizeof session &&
	                 session.magic == LONGPOLE_ABI_MAGIC && session.version == LONGPOLE_ABI_VERSION && longpole_is_locked((int)file);
	longpole_close((int)file);
	if (held)
		*orders = session.orders;
	return held;
}

/*
 * The orders for processes that start now. If a recorder started this process by its command while
 * another recorder records all processes, the orders of the former are in a file of its own.
 */
LONGPOLE_SLOW void longpole_read_orders(int directory, struct longpole_orders *orders)
{
	char name[32];
	__builtin_memset(orders, 0, sizeof *orders);
	if (longpole_page.scope != 0) {
		longpole_append_number(name, sizeof name, longpole_append(name, sizeof name, 0, "session-c"), longpole_page.scope, 10, 0);
		if (longpole_read_session(directory, name, orders))
			return;
	}
	longpole_read_session(directory, "session", orders);
}

LONGPOLE_SLOW void longpole_write_label(const char *text, size_t size)
{
	struct longpole_control *control = &longpole_page;
	if (longpole_own_process() == NULL || control->magic != LONGPOLE_ABI_MAGIC)
		return;
	__atomic_fetch_add(&control->label_version, 1, __ATOMIC_ACQ_REL);
	__builtin_memset(control->label, 0, sizeof control->label);
	longpole_copy(control->label, text, longpole_length(text, size < sizeof control->label - 1 ? size : sizeof control->label - 1));
	__atomic_fetch_add(&control->label_version, 1, __ATOMIC_ACQ_REL);
}

/* Returns 1 if `name` is the control file of a process of this execution that has ended and never
 * had a ring. */
LONGPOLE_SLOW int longpole_is_stale_control_file(int directory, const char *name, const char *tail)
{
	const char *at = name;
	uint32_t pid = 0, rings = 1;
	while (*at >= '0' && *at <= '9' && pid < 100000000u)
		pid = pid * 10 + (uint32_t)(*at++ - '0');
	while (*at != 0 && *at == *tail) {
		at++;
		tail++;
	}
	if (*at != 0 || *tail != 0 || pid == 0 || longpole_call(SYS_kill, pid, 0, 0, 0, 0, 0) != -3 /* ESRCH */)
		return 0;
	const long file = longpole_open(directory, name, LONGPOLE_O_RDONLY | LONGPOLE_O_NOFOLLOW, 0);
	if (file < 0)
		return 0;
	longpole_call(SYS_pread64, (uintptr_t)file, (uintptr_t)&rings, sizeof rings, __builtin_offsetof(struct longpole_control, rings), 0, 0);
	longpole_close((int)file);
	return rings == 0;
}

/* Removes the control files of children that ended by exec, _exit or a signal. One in 32 processes
 * does it, while nothing is recorded. */
LONGPOLE_SLOW void longpole_sweep(int directory, const char *stem)
{
	struct {
		uint64_t inode, offset;
		uint16_t size;
		uint8_t kind;
		char name[1];
	} entry;
	char entries[2048], tail[32];
	const size_t head = __builtin_offsetof(__typeof__(entry), name);
	if ((uint32_t)longpole_getpid() * 0x9e3779b1u >> 27 != 0)
		return;
	while (*stem != '-')
		stem++;
	longpole_append(tail, sizeof tail, longpole_append(tail, sizeof tail, 0, stem), ".control");
	for (;;) {
		const long size = longpole_call(SYS_getdents64, (uintptr_t)directory, (uintptr_t)entries, sizeof entries, 0, 0, 0);
		if (size <= 0)
			return;
		for (long at = 0; at < size; at += entry.size) {
			const char *name = entries + at + head;
			__builtin_memcpy(&entry, entries + at, head);
			if (longpole_is_stale_control_file(directory, name, tail))
				longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)name, 0, 0, 0, 0);
		}
	}
}

/* Fills a new control file and gives it its name. `control` is its mapping over the page. */
LONGPOLE_SLOW int longpole_publish_control_file(int directory, struct longpole_control *control, const char *path, const char *stem,
                                     const char *temporary, const char *name)
{
	struct longpole_process *process = (struct longpole_process *)longpole_map_private(NULL, 0, sizeof *process);
	if (process == NULL)
		return -1;
	longpole_call(SYS_madvise, (uintptr_t)process, sizeof *process, 18 /* MADV_WIPEONFORK */, 0, 0, 0);
	process->alive = 1;
	longpole_append(process->directory, sizeof process->directory, 0, path);
	longpole_append(process->stem, sizeof process->stem, 0, stem);
	process->sites = longpole_open_sites(directory);
	const char *label = longpole_libc_getenv("LONGPOLE_LABEL");
	control->magic = LONGPOLE_ABI_MAGIC;
	control->version = LONGPOLE_ABI_VERSION;
	control->pid = longpole_getpid();
	control->birth = longpole_counter();
	control->process = (uint64_t)(uintptr_t)process;
	longpole_call(SYS_readlinkat, LONGPOLE_AT_FDCWD, (uintptr_t)"/proc/self/exe", (uintptr_t)control->executable,
	              sizeof control->executable - 1, 0, 0);
	/* A short-lived process must state itself to which recording it belongs, because it may end
	 * before the recorder can find out. */
	const char *scope = longpole_libc_getenv("LONGPOLE_SESSION");
	for (uint64_t number = 0; scope != NULL && *scope >= '0' && *scope <= '9'; scope++)
		control->scope = number = number * 10 + (uint64_t)(*scope - '0');
	if (label != NULL)
		longpole_copy(control->label, label, longpole_length(label, sizeof control->label - 1));
	if (process->sites == NULL || longpole_publish(directory, temporary, name) < 0) {
		longpole_unmap(process, sizeof *process);
		return -1;
	}
	/*
	 * The file has its name before the orders are read. So a recorder that publishes new orders and
	 * then looks for control files misses no process.
	 */
	struct longpole_orders orders;
	longpole_read_orders(directory, &orders);
	if (orders.mask != 0) {
		const uint32_t mask = orders.mask;
		orders.mask = 0;
		/* A recorder that has already written its orders here has precedence. */
		if (__atomic_load_n(&control->orders.session, __ATOMIC_ACQUIRE) == 0) {
			control->orders.mode = orders.mode;
			control->orders.ring_size = orders.ring_size;
			control->orders.snaplen = orders.snaplen;
			control->orders.clock = orders.clock;
			control->orders.block_limit = orders.block_limit;
			uint64_t none = 0;
			if (__atomic_compare_exchange_n(&control->orders.session, &none, orders.session, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				__atomic_store_n(&control->orders.mask, mask, __ATOMIC_RELEASE);
		}
	}
	if (orders.mask == 0)
		longpole_sweep(directory, stem);
	return 0;
}

/* Returns 1 if the table of a control file belongs to this process: a fork wipes every text in it.
 * The kernel checks first that the address can be read at all. */
LONGPOLE_SLOW int longpole_is_table(const struct longpole_process *process, const char *stem)
{
	const uintptr_t no_such_way = 99;
	if (process == NULL || ((uintptr_t)process & 7) != 0 ||
	    longpole_call(SYS_rt_sigprocmask, no_such_way, (uintptr_t)process, 0, 8, 0, 0) == -14 /* EFAULT */ ||
	    longpole_call(SYS_rt_sigprocmask, no_such_way, (uintptr_t)(process->stem + 24), 0, 8, 0, 0) == -14)
		return 0;
	for (int i = 0; i < 32; i++) {
		if (process->stem[i] != stem[i])
			return 0;
		if (stem[i] == 0)
			return process->alive != 0;
	}
	return 0;
}

LONGPOLE_SLOW uint32_t longpole_take_slot(struct longpole_process *process)
{
	uint32_t taken = __atomic_load_n(&process->libraries, __ATOMIC_RELAXED), slot;
	do {
		slot = ~taken & (taken + 1);
		if (slot == 0)
			return LONGPOLE_SLOT_OF_MANY;
	} while (!__atomic_compare_exchange_n(&process->libraries, &taken, taken | slot, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return slot;
}

/*
 * Takes the lock that keeps a recorder from replacing the site table. Recorders hold it only for
 * moments. Returns 0 if it could not be had for about a second; then the process runs without being
 * recorded.
 */
LONGPOLE_SLOW int longpole_lock_births(int directory)
{
	const int64_t pause[2] = {0, 1000000};
	for (int turn = 0; turn < 1000; turn++) {
		if (longpole_call(SYS_flock, (uintptr_t)directory, 1 | 4 /* LOCK_SH, LOCK_NB */, 0, 0, 0, 0) != -11 /* EAGAIN */)
			return 1;
		longpole_call(SYS_nanosleep, (uintptr_t)pause, 0, 0, 0, 0, 0);
	}
	return 0;
}

LONGPOLE_SLOW uint64_t longpole_hash_bytes(uint64_t hash, const uint8_t *bytes, long size)
{
	for (long i = 0; bytes != NULL && i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* The common start of the names of this execution's files: `PID-TAG`. */
LONGPOLE_SLOW void longpole_own_stem(char *stem, size_t capacity)
{
	uint8_t space[32];
	/* The kernel gives every execution 16 random bytes. Their hash distinguishes executions and
	 * does not reveal the bytes. */
	uint64_t hash = longpole_hash_bytes(0xcbf29ce484222325u, (const uint8_t *)longpole_libc_getauxval(25 /* AT_RANDOM */), 16);
	/* Processes in different pid namespaces may have the same number. */
	const long size = longpole_call(SYS_readlinkat, LONGPOLE_AT_FDCWD, (uintptr_t)"/proc/self/ns/pid", (uintptr_t)space, sizeof space, 0, 0);
	hash = longpole_hash_bytes(hash, space, size);
	hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
	size_t length = longpole_append_number(stem, capacity, 0, (uint64_t)longpole_getpid(), 10, 0);
	length = longpole_append(stem, capacity, length, "-");
	longpole_append_number(stem, capacity, length, hash >> 32, 16, 8);
}

/* Connects this library with the process's control file, which the first library of a process
 * makes. Returns the process's table, or NULL if the process is not recorded. */
LONGPOLE_SLOW struct longpole_process *longpole_connect(void)
{
	char path[208], stem[32], name[64], temporary[64];
	struct longpole_process *connected = NULL;
	uint32_t user;
	if (!longpole_directory_path(path, sizeof path, &user))
		return NULL;
	longpole_call(SYS_mkdirat, LONGPOLE_AT_FDCWD, (uintptr_t)path, 0700, 0, 0, 0);
	long directory = longpole_open_directory(path);
	if (directory < 0)
		return NULL;
	longpole_own_stem(stem, sizeof stem);
	longpole_append(name, sizeof name, longpole_append(name, sizeof name, 0, stem), ".control");
	if (!longpole_lock_births((int)directory)) {
		longpole_close((int)directory);
		return NULL;
	}
	/* Two libraries of one child may connect at the same time: the second one uses the file of the
	 * first. */
	for (int attempt = 0; attempt < 2; attempt++) {
		int made = 0;
		long file = longpole_open_writable((int)directory, name);
		if (file == -2 /* ENOENT */) {
			file = longpole_create((int)directory, temporary, sizeof temporary, LONGPOLE_CONTROL_SIZE);
			made = 1;
		}
		if (file < 0)
			break;
		struct longpole_control *control = (struct longpole_control *)longpole_map(&longpole_page, 1, LONGPOLE_CONTROL_SIZE, (int)file, 0);
		longpole_close((int)file);
		if (control == NULL)
			break;
		if (made && longpole_publish_control_file((int)directory, control, path, stem, temporary, name) < 0) {
			longpole_map_private(&longpole_page, 1, LONGPOLE_CONTROL_SIZE);
			longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)temporary, 0, 0, 0, 0);
			continue;
		}
		struct longpole_process *process = (struct longpole_process *)(uintptr_t)control->process;
		const int known = control->magic == LONGPOLE_ABI_MAGIC && control->version == LONGPOLE_ABI_VERSION;
		if (known && longpole_is_table(process, stem)) {
			longpole_library.user = user;
			longpole_library.slot = longpole_take_slot(process);
			connected = process;
			break;
		}
		longpole_map_private(&longpole_page, 1, LONGPOLE_CONTROL_SIZE);
		if (!known)
			break;
		/* The file was left by an earlier process with the same number that ended without removing
		 * it. */
		longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)name, 0, 0, 0, 0);
	}
	longpole_call(SYS_flock, (uintptr_t)directory, 8 /* LOCK_UN */, 0, 0, 0, 0);
	longpole_close((int)directory);
	return connected;
}

LONGPOLE_SLOW void longpole_thread_exit(void *unused);

/*
 * Protects the ring of the parent from a child that was forked in a handler which interrupted a
 * probe. The handler may return into that probe, which continues to write; so its ring is replaced
 * by a private copy that is never read. The copy is not freed, because it is not known when the
 * handler returns.
 */
LONGPOLE_SLOW void longpole_disown(struct longpole_ring *ring)
{
	const uint64_t size = ring->size;
	if (size < LONGPOLE_RING_MINIMUM || size > (1u << 30) || (size & (size - 1)) != 0 || ring->mask != size - 1)
		return;
	struct longpole_ring *copy = (struct longpole_ring *)longpole_map_private(NULL, 0, LONGPOLE_RING_DATA + size);
	if (copy == NULL)
		return;
	__builtin_memcpy(copy, ring, sizeof *copy);
	copy->successor = 0;
	copy->mode = LONGPOLE_MODE_DISCARD;
	longpole_call(SYS_mremap, (uintptr_t)copy, LONGPOLE_RING_DATA + size, LONGPOLE_RING_DATA + size, 3 /* MAYMOVE, FIXED */, (uintptr_t)ring, 0);
}

/* Detaches the child of a fork from everything that belongs to its parent. */
LONGPOLE_SLOW int longpole_disconnect(void)
{
	struct longpole_ring *ring = longpole_thread;
	const int done = longpole_map_private(&longpole_page, 1, LONGPOLE_CONTROL_SIZE) != NULL;
	longpole_thread = LONGPOLE_NO_RING;
	if (ring != LONGPOLE_NO_RING)
		longpole_disown(ring);
	return done;
}

/*
 * Runs in the child of a fork, which is recorded as a process of its own. If nothing is recorded,
 * the child connects only at its first probe; to get there, all categories are enabled until then.
 * Most children end by exec or _exit without any probe, and would otherwise leave a control file
 * behind.
 */
LONGPOLE_SLOW void longpole_forked(void)
{
	const int later = longpole_library.process != NULL && longpole_page.orders.mask == 0;
	const int done = longpole_disconnect();
	if (!later)
		longpole_library.process = longpole_connect();
	else if (done)
		longpole_page.orders.mask = ~0u;
}

/* Runs once per source file; only the first call has an effect. */
__attribute__((constructor(101), unused, no_instrument_function)) static void longpole_construct(void)
{
	uint32_t untouched = 0;
	if (!__atomic_compare_exchange_n(&longpole_library.state, &untouched, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	unsigned key;
	if (longpole_libc_key_create(&key, longpole_thread_exit) == 0)
		longpole_library.key = key + 1;
	longpole_libc_atfork(NULL, NULL, longpole_forked);
	longpole_library.process = longpole_connect();
	__atomic_store_n(&longpole_library.state, 2, __ATOMIC_RELEASE);
}

/*
 * Runs when the library is unloaded: removes the destructor for threads and stops using the rings
 * of threads. The last library removes the control file, unless there are rings, whose content
 * still belongs to the recorder.
 */
LONGPOLE_SLOW void longpole_leave(struct longpole_process *process);

__attribute__((destructor(101), unused, no_instrument_function)) static void longpole_destruct(void)
{
	uint32_t connected = 2;
	char name[64];
	struct longpole_process *process = longpole_library.process;
	if (!__atomic_compare_exchange_n(&longpole_library.state, &connected, 3, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	if (longpole_library.key != 0)
		longpole_libc_key_delete(longpole_library.key - 1);
	longpole_library.key = 0;
	if (process == NULL || !process->alive)
		return;
	longpole_leave(process);
	if (__atomic_load_n(&process->libraries, __ATOMIC_ACQUIRE) != 0 || longpole_page.rings != 0)
		return;
	long directory = longpole_open_directory(process->directory);
	if (directory < 0)
		return;
	size_t length = longpole_append(name, sizeof name, 0, process->stem);
	longpole_append(name, sizeof name, length, ".control");
	longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)name, 0, 0, 0, 0);
	longpole_close((int)directory);
}

#if defined(__cplusplus)
}
#endif

/* Every file that includes this one has the destructor, and therefore needs the functions that it
 * calls. */
#include "thread.h"

#endif
