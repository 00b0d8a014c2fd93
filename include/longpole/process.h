/*
 * The process's side of the runtime directory: the control file, whose first page is mapped over a page of .bss so that "is anything
 * recorded?" is one load, and the table by which the libraries of a process share their rings.
 *
 * Nothing here runs on a hot path, and nothing here may fail the program: where something cannot be had, the process is simply not
 * recorded, and says so in its control file if there is one.
 */
#ifndef LONGPOLE_PROCESS_H
#define LONGPOLE_PROCESS_H

#include "abi.h"
#include "system.h"

#if defined(__cplusplus)
extern "C" {
#endif

/*
 * One object per library, however many source files: COMDAT sections, hidden. The compilers offer that only for C++ inline
 * variables, and C and C++ files of one library must share, so it is written in assembly. `.ifndef` is for link-time
 * optimisation, which puts several files into one.
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

/* A thread's ring as this process sees it, shared by the process's libraries. */
struct longpole_entry {
	struct longpole_ring *ring;
	int32_t tid;    /* 0: its thread has ended, another may take it */
	uint32_t users; /* libraries of that thread that use it, a bit each */
};

#define LONGPOLE_ENTRIES 65536u

/* Private memory of the process, wiped by fork: a child sees alive == 0, also one that a raw clone made. */
struct longpole_process {
	uint32_t alive;
	uint32_t lock;
	uint32_t entries;
	uint32_t libraries; /* of this process that are connected, a bit each */
	uint64_t retry; /* counter at which a ring may be tried again after memory ran out */
	struct longpole_sites *sites;
	char directory[208];
	char stem[32]; /* <pid>-<tag> */
	struct longpole_entry entry[LONGPOLE_ENTRIES];
};

/* Per library. */
struct longpole_library {
	struct longpole_process *process;
	uint32_t state; /* 0 untouched, 1 being set up, 2 set up (also when that failed) */
	uint32_t key;   /* of the destructor at thread exit, plus one */
	uint32_t atfork;
	uint32_t forking; /* a thread is finding out that this is the child of a fork */
	uint32_t slot; /* its bit among the libraries of the process */
	uint32_t user; /* as whom it connected with a directory of that user's own; else LONGPOLE_ANY_USER */
	uint32_t spare[6];
	uint64_t closed; /* always 0: the gate of LONGPOLE_NO_RING */
};

extern struct longpole_control longpole_page __attribute__((visibility("hidden")));
extern struct longpole_library longpole_library __attribute__((visibility("hidden")));
#if defined(LONGPOLE_TLS_DYNAMIC)
extern __thread struct longpole_ring *longpole_thread __attribute__((visibility("hidden")));
#else
/* Initial-exec: 1 ns cheaper than a descriptor, good for some 200 libraries that are loaded at run time. */
extern __thread struct longpole_ring *longpole_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));
#endif

/* The bit of all libraries for which there is no other. It is not taken back: nobody knows who else has it. */
#define LONGPOLE_SLOT_OF_MANY (1u << 31)

/*
 * The word before a ring's header lies in a page of the process's own, which a child of a fork finds wiped. So one look tells a thread whether it
 * has a ring, and a child, also one that a raw clone made, that the ring is its parent's: it touches nothing of that.
 */
#define LONGPOLE_NO_RING ((struct longpole_ring *)(void *)(&longpole_library + 1))

LONGPOLE_INLINE int longpole_is_open(const struct longpole_ring *ring)
{
	return *((const uint64_t *)(const void *)ring - 1) != 0;
}

/* Maps a ring's file behind a page of our own. */
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
 * Whether this is another process than the one that connected: the child of a fork; or one that became another user's before it had a ring, which
 * has no way to the directory of the first one.
 */
LONGPOLE_SLOW int longpole_is_another(const struct longpole_process *process)
{
	const uint32_t user = longpole_library.user;
	return !process->alive || (user != LONGPOLE_ANY_USER && __atomic_load_n(&longpole_page.rings, __ATOMIC_RELAXED) == 0 &&
	                           user != (uint32_t)longpole_call(SYS_geteuid, 0, 0, 0, 0, 0, 0));
}

LONGPOLE_SLOW void longpole_begin_anew(void);

/* The process's table. Who is another process by now connects anew. */
LONGPOLE_INLINE struct longpole_process *longpole_own_process(void)
{
	if (longpole_library.process != NULL && LONGPOLE_UNLIKELY(longpole_is_another(longpole_library.process)))
		longpole_begin_anew();
	return longpole_library.process;
}

/* Opens a file of the runtime directory for writing. Its mode forbids that, except for the instant of opening. */
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
		/* Somebody else's instant of opening may have ended between our two calls. */
		if (writable != -13 /* EACCES */)
			return writable;
	}
	return -13;
}

/*
 * Makes a file that is complete before it has its name: `publish` gives it that. Returns the open file or -errno.
 * The temporary name tells threads apart; a leftover of a killed process is removed by the recorder.
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
	/* Memory is taken now: a later store must not find the file system full. */
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

/* Opens a runtime directory that is ours alone, or returns -errno. */
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

/* A path that does not begin at the root is one from where the library began: the program may change its directory. */
LONGPOLE_SLOW char *longpole_relative_path(void)
{
	static char path[208];
	return path;
}

/* Where the runtime directory is. 0: at a path that is too long. `user`: whose number stands in it. */
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

/* Maps the site table, making it if need be. */
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
			sites->arena_next = 8; /* offset 0 means a free slot */
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

/* Whether a living recorder holds the lock on a file. */
LONGPOLE_SLOW int longpole_is_locked(int file)
{
	struct {
		int16_t type, whence;
		int64_t start, length;
		int32_t pid;
	} lock = {0 /* F_RDLCK */, 0, 0, 0, 0};
	return longpole_call(SYS_fcntl, (uintptr_t)file, 36 /* F_OFD_GETLK */, (uintptr_t)&lock, 0, 0, 0) == 0 && lock.type == 1 /* F_WRLCK */;
}

/* 0: no living recorder holds the lock on the file. */
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
 * What a recorder wants of processes that are born now. One that started this process by its command, beside a recorder of whoever comes, has a file of
 * its own for them.
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

/* Whether a name is that of the control file of a process of this execution that has ended, and never had a ring. */
LONGPOLE_SLOW int longpole_is_left(int directory, const char *name, const char *tail)
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

/* Children that end by exec, _exit or a signal leave their control files. While nobody records, one in so many of their siblings clears them away. */
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
			if (longpole_is_left(directory, name, tail))
				longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)name, 0, 0, 0, 0);
		}
	}
}

/* Fills a new control file and gives it its name. `control` is its mapping over the page. */
LONGPOLE_SLOW int longpole_introduce(int directory, struct longpole_control *control, const char *path, const char *stem,
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
	/* A process that lives for a moment must say itself where it belongs: soon nobody can ask. */
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
	 * The file has its name before the orders are read: a recorder that publishes new orders and then looks for control files
	 * misses nobody.
	 */
	struct longpole_orders orders;
	longpole_read_orders(directory, &orders);
	if (orders.mask != 0) {
		const uint32_t mask = orders.mask;
		orders.mask = 0;
		/* A recorder that already wrote its orders here has the newer word. */
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

/* Whether a control file's table is that of this process: every text in it is wiped by fork. The kernel says whether the address can be read at all. */
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
 * While this lock is held, no recorder takes the site table away. Recorders have it for moments; 0: somebody kept it for about a second, and the
 * process goes on without being recorded.
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

/* The name of this execution's files without their ends. */
LONGPOLE_SLOW void longpole_own_stem(char *stem, size_t capacity)
{
	uint8_t space[32];
	/* The kernel gives every execution 16 random bytes. A hash tells executions apart and gives nothing of them away. */
	uint64_t hash = longpole_hash_bytes(0xcbf29ce484222325u, (const uint8_t *)longpole_libc_getauxval(25 /* AT_RANDOM */), 16);
	/* Children in pid namespaces of their own have numbers of their own. */
	const long size = longpole_call(SYS_readlinkat, LONGPOLE_AT_FDCWD, (uintptr_t)"/proc/self/ns/pid", (uintptr_t)space, sizeof space, 0, 0);
	hash = longpole_hash_bytes(hash, space, size);
	hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
	size_t length = longpole_append_number(stem, capacity, 0, (uint64_t)longpole_getpid(), 10, 0);
	length = longpole_append(stem, capacity, length, "-");
	longpole_append_number(stem, capacity, length, hash >> 32, 16, 8);
}

/* Connects this library with the process's control file, which the first library of a process makes. The process's table; NULL: it is not recorded. */
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
	/* Two libraries of one child may come at once: who is second takes what the first one made. */
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
		if (made && longpole_introduce((int)directory, control, path, stem, temporary, name) < 0) {
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
		/* A child that had this number before ended without a word. */
		longpole_call(SYS_unlinkat, (uintptr_t)directory, (uintptr_t)name, 0, 0, 0, 0);
	}
	longpole_call(SYS_flock, (uintptr_t)directory, 8 /* LOCK_UN */, 0, 0, 0, 0);
	longpole_close((int)directory);
	return connected;
}

LONGPOLE_SLOW void longpole_thread_exit(void *unused);

/*
 * A handler that interrupted a probe may have made this child, and return into that probe: the rest of it goes into a copy of the ring that nobody
 * reads. The copy stays, for nobody knows when the handler returns.
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

/* In the child of a fork: nothing of the parent's may be touched. */
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
 * The child is a process of its own. Where nobody records, it connects at its first probe, for which everything seems to be recorded until then: most
 * children end without one, by exec or _exit, and would leave a control file behind.
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

/* Runs once per source file; the first one does the work. */
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
 * A library that is unloaded leaves no destructor behind, and uses no thread's ring any more. The last one takes the control file along, unless
 * there are rings: what is in them still belongs to the recorder.
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

/* Whoever includes this has the destructor, and what that calls. */
#include "thread.h"

#endif
