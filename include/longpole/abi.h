/*
 * The shared memory between a program with probes and the recorder. This header is the definition
 * of its layout.
 *
 * All files are in the runtime directory, one per user: /dev/shm/longpole-<uid>
 * (LONGPOLE_RUNTIME_DIR overrides it), mode 0700:
 *
 *   sites                   event classes of all programs of this user, filled on the first hit of
 *                           each call site
 *   session                 the orders of a recorder for processes that start later
 *   session-<pid>           the same of further recorders; session-c<number> for the processes that
 *                           a recorder's command starts
 *   <pid>-<tag>.control     one per process; its first word is the enable word, which every probe
 *                           loads
 *   <pid>-<tag>.<n>.ring    one per recorded thread, n counts from 0; <pid>-<tag>.s<n>.ring is a
 *                           larger ring that the recorder made for a thread
 *   .new-<tid>-<counter>    a file that does not have its name yet
 *
 * The tag distinguishes executions of the same pid, because exec keeps the pid. Files have mode
 * 0400 and are complete before they get their name; a process that must write to one adds the
 * permission only for the moment of opening. The program's side is longpole.h, the recorder's side
 * is crates/abi, and a test in crates/abi proves that both agree in every byte.
 *
 * All integers have the byte order of the host (little endian on x86-64 and arm64). This header
 * needs only types.h.
 */
#ifndef LONGPOLE_ABI_H
#define LONGPOLE_ABI_H

#include "types.h"

#define LONGPOLE_ABI_MAGIC 0x454c4f50474e4f4cULL /* "LONGPOLE" */
#define LONGPOLE_ABI_VERSION 1u

/* The mapping of the control file replaces a page of .bss, so it has the largest page size of the
 * architecture. */
#if defined(__aarch64__)
#define LONGPOLE_CONTROL_SIZE 65536u
#else
#define LONGPOLE_CONTROL_SIZE 4096u
#endif

/* Categories: the bits of the enable word. */
#define LONGPOLE_CATEGORY_STATE (1u << 0)
#define LONGPOLE_CATEGORY_SPAN (1u << 1)
#define LONGPOLE_CATEGORY_MARK (1u << 2)
#define LONGPOLE_CATEGORY_COUNTER (1u << 3)
#define LONGPOLE_CATEGORY_RPC (1u << 4)
#define LONGPOLE_CATEGORY_SIGNAL (1u << 5)
#define LONGPOLE_CATEGORY_QUEUE (1u << 6)
#define LONGPOLE_CATEGORY_LINK (1u << 7)
#define LONGPOLE_CATEGORY_PACKET (1u << 8)
#define LONGPOLE_CATEGORY_EVENT (1u << 9)
#define LONGPOLE_CATEGORY_LOG (1u << 10)

/*
 * Kinds of events. The number of a kind is also the class id of its overflow class, whose events
 * include their name. The meaning of a number never changes.
 */
enum longpole_kind {
	LONGPOLE_KIND_NONE = 0,
	LONGPOLE_KIND_STATE = 1,
	LONGPOLE_KIND_SPAN_BEGIN = 2,
	LONGPOLE_KIND_SPAN_END = 3,
	LONGPOLE_KIND_MARK = 4,
	LONGPOLE_KIND_COUNTER = 5,
	LONGPOLE_KIND_RPC_CALL = 6,
	LONGPOLE_KIND_RPC_RETURNED = 7,
	LONGPOLE_KIND_RPC_DISPATCH = 8,
	LONGPOLE_KIND_RPC_REPLY = 9,
	LONGPOLE_KIND_SIGNAL_SUBMIT = 10,
	LONGPOLE_KIND_SIGNAL_RECEIVE = 11,
	LONGPOLE_KIND_SIGNAL_WAIT = 12,
	LONGPOLE_KIND_QUEUE_PUT = 13,
	LONGPOLE_KIND_QUEUE_GET = 14,
	LONGPOLE_KIND_QUEUE_PEEK = 15,
	LONGPOLE_KIND_QUEUE_RESERVE = 16,
	LONGPOLE_KIND_QUEUE_WAIT_EMPTY = 17,
	LONGPOLE_KIND_QUEUE_WAIT_FULL = 18,
	LONGPOLE_KIND_QUEUE_SIZE = 19,
	LONGPOLE_KIND_LINK = 20,
	LONGPOLE_KIND_FLOW = 21,
	LONGPOLE_KIND_PACKET = 22,
	LONGPOLE_KIND_EVENT = 23,
	LONGPOLE_KIND_LOG = 24,
	LONGPOLE_KIND_COUNT = 25
};

/* Class ids below this number are overflow classes (the id is the kind); call sites get ids from
 * this number on. */
#define LONGPOLE_FIRST_SITE_ID 64u

/* Handling of an event whose ring is full. */
enum longpole_mode {
	LONGPOLE_MODE_DISCARD = 0,   /* the new event is discarded and counted */
	LONGPOLE_MODE_OVERWRITE = 1, /* the oldest sub-buffer is overwritten */
	LONGPOLE_MODE_BLOCK = 2      /* the thread waits for a bounded time */
};

/* Unit of the timestamps. */
enum longpole_clock {
	LONGPOLE_CLOCK_COUNTER = 0, /* tsc on x86-64, cntvct on arm64 */
	LONGPOLE_CLOCK_MONO_RAW = 1 /* CLOCK_MONOTONIC_RAW in ns */
};

/*
 * The orders of a recorder: in `session` for processes that start later, in each control file for
 * its process. `mask` is the enable word; it is written last, with release order.
 */
struct longpole_orders {
	uint32_t mask;      /* categories that are recorded; 0: nothing is recorded */
	uint32_t mode;      /* enum longpole_mode */
	/* size in bytes of a ring that a thread makes for itself: a power of two, at least 32 KiB */
	uint32_t ring_size;
	uint32_t snaplen;   /* number of bytes to record of a packet */
	uint32_t clock;     /* enum longpole_clock */
	uint32_t block_limit; /* LONGPOLE_MODE_BLOCK: maximum time that a thread waits, in microseconds */
	uint64_t session;   /* id of the recording; 0: none */
	uint64_t spare[4];
};

/* The file `session`. The recorder holds an open-file-description write lock on it; without that
 * lock the orders are invalid. */
struct longpole_session {
	struct longpole_orders orders;
	uint64_t magic;
	uint32_t version;
	int32_t recorder;  /* pid of the recorder */
	char path[1024];   /* directory of the recording, NUL-terminated */
};

/* The first bytes of a control file. */
struct longpole_control {
	/* written by the recorder (at the start of the process by the process itself, from
	 * `session`) */
	struct longpole_orders orders;

	/* Written by the process. */
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint64_t birth;      /* counter when the process connected */
	uint64_t process;    /* address of the process's own table, meaningless to others */
	uint32_t rings;      /* number of ring files made; they are numbered from 0 to rings - 1 */
	uint32_t refused;    /* events that were not recorded because their thread could not get a ring */
	uint32_t refused_errno;
	uint32_t label_version; /* lowest bit is 1 while the label is being changed */
	char label[256];
	char executable[256];
	uint64_t scope; /* LONGPOLE_SESSION of the environment: the recording whose command started this process; 0: none */
};

/*
 * A ring file: this header in the first 4 KiB, then `size` bytes of data in sub-buffers. Positions
 * count bytes since the ring was made and never decrease; the data of a position is at byte `4096 +
 * (position & mask)` of the file. The thread writes the first cache line, the recorder the second.
 */
struct longpole_ring {
	/* The thread's line: everything that the fast path of a probe accesses. */
	uint64_t head;  /* end of the complete events */
	/* an event that would end behind this position takes the slow path; 0: every event does */
	uint64_t limit;
	uint64_t mask;  /* size - 1 */
	uint64_t last;  /* header of the newest event */
	uint64_t lost;  /* events discarded since the ring was made */
	/* stack pointer of the probe that is writing; 0: none. A probe in a signal handler that finds
	 * it set uses the side area */
	uint64_t busy;
	uint8_t spare_byte;
	uint8_t nested; /* number of events in the side area */
	/* 1 if the ring contains or contained a captured packet: only such rings are searched for
	 * packets */
	uint8_t packets;
	uint8_t second_spare_byte;
	uint32_t state; /* enum longpole_ring_state */
	/* events written since the ring was made, without `lost`; incremented before `head` */
	uint64_t events;

	/* The recorder's line. */
	uint64_t tail;            /* end of the data that the recorder has taken */
	uint64_t pending_tail;    /* value that tail gets when the packet at pending_offset is committed */
	uint64_t pending_offset;  /* offset in the stream file */
	uint64_t lost_reported;   /* value of `lost` that the newest packet states */
	uint32_t lane;            /* number of the stream file, plus one */
	uint32_t successor;       /* number of a larger ring made for this thread, plus one; 0: none */
	uint64_t session;         /* the recording that took data from this ring last */
	uint64_t pending_lost;    /* value of lost_reported when the packet at pending_offset is committed */
	uint64_t pending_discarded; /* events_discarded in the header of that packet */

	/* Constant after the ring is made, except for the owner, which changes only together with a
	 * sub-buffer. */
	uint64_t magic;
	uint32_t version;
	uint32_t number;
	uint64_t size;
	uint64_t subbuffer;       /* size of a sub-buffer in bytes, including its header */
	int32_t pid;
	int32_t tid;
	uint32_t clock;           /* enum longpole_clock */
	uint32_t nested_lost;     /* part of `lost`: events for which the side area was full */
	char thread[32];
	/* enum longpole_mode; the recorder may switch between discarding and blocking */
	uint32_t mode;
	uint32_t block_limit;     /* as in the orders */
	/* by the thread: value of `tail` plus one for which a wait failed; it waits again when `tail`
	 * has changed */
	uint64_t gave_up;
	uint64_t waited;          /* by the thread: time that it waited for room, in nanoseconds */
	uint64_t taken;           /* by the recorder, in overwrite mode: `events` at `tail` */
	uint64_t end;             /* by the thread: end of the current sub-buffer; equal to head if it was closed early */
	uint8_t unused[776];

	/* Events of probes in signal handlers that interrupted a probe: 16 entries of 64 bytes. */
	uint8_t side[16][64];
	uint8_t rest[2048];
};

enum longpole_ring_state {
	LONGPOLE_RING_OWNED = 0, /* a thread writes it */
	LONGPOLE_RING_IDLE = 1,  /* its thread has ended; another thread may take it */
	LONGPOLE_RING_ENDED = 2  /* replaced by a larger ring; it is not written any more */
};

#define LONGPOLE_RING_DATA 4096u
#define LONGPOLE_SIDE_ENTRIES 16u
#define LONGPOLE_RING_SUBBUFFERS 4u
#define LONGPOLE_RING_MINIMUM 32768u
/* Maximum time in microseconds for which a thread waits for room, whatever the recorder orders. */
#define LONGPOLE_BLOCK_MAXIMUM 10000000u

/* The header of every sub-buffer. It is as large as the packet header in the trace, which the
 * recorder writes itself. */
struct longpole_subbuffer {
	uint64_t begin;    /* full 64-bit counter when the sub-buffer was begun */
	/* bytes from the start of the sub-buffer to the end of its last event, once it is complete */
	uint64_t content;
	uint64_t lost;     /* value of the ring's `lost` when it was begun */
	/* position of the sub-buffer; plus one while it is being begun, so that a reader of the old
	 * content sees that it is being overwritten */
	uint64_t position;
	int32_t pid;
	int32_t tid;
	char thread[32];
	uint64_t events;   /* value of the ring's `events` when it was begun */
	uint8_t unused[168];
	uint64_t last;     /* header of its last event, once it is complete; 0: unknown */
};

#define LONGPOLE_SUBBUFFER_HEADER 256u

/*
 * The file `sites`: this header, 65,536 slots, then an arena that grows. A slot holds the arena
 * offset of its entry divided by 8, or 0 if it is free. The number of a slot is the class id.
 * Entries are complete before one compare-and-swap publishes them, and they never change.
 */
#define LONGPOLE_SITE_SLOTS 65536u
/* number of slots that are tried before a site gets the overflow class */
#define LONGPOLE_SITE_ATTEMPTS 64u
#define LONGPOLE_SITE_ARENA_STEP (1u << 20)
#define LONGPOLE_SITE_ARENA_MAXIMUM (64u << 20)

struct longpole_sites {
	uint64_t magic;
	uint32_t version;
	uint32_t used;       /* number of published sites; a hint only */
	uint64_t arena_next; /* bytes of the arena that are allocated to entries */
	uint64_t arena_size; /* bytes of the arena that are backed by memory */
	uint8_t unused[4096 - 32];
	uint32_t slots[LONGPOLE_SITE_SLOTS];
};

/* An entry of the arena. Its texts follow without NUL: name, fields, file, attributes. */
struct longpole_site {
	uint32_t size; /* size with texts, a multiple of 8 */
	uint16_t kind;
	uint16_t name_size;
	uint16_t fields_size;
	uint16_t file_size;
	uint16_t attributes_size;
	uint16_t reserved;
	uint32_t line;
	uint32_t hash; /* hash of kind, line and texts */
};

#define LONGPOLE_NAME_MAXIMUM 255u
#define LONGPOLE_FIELDS_MAXIMUM 1023u

/*
 * The text `fields` of a site is a comma-separated list of `type:name`. Types:
 *
 *   u            uint64
 *   x            uint64, shown in hexadecimal
 *   i            int64
 *   d            double
 *   k            kind of a mark (uint64)
 *   s            string, NUL-terminated, padded to 8 bytes
 *   w            uint32; such fields come in pairs
 *   b            bytes: length as uint64, then the bytes, padded to 8
 *   u1[] … u8[], i1[] … i8[], d4[], d8[]
 *                arrays: number of elements as uint64, then the elements, padded to 8 bytes
 *   e[red=0;green=1]
 *                int64 whose values have names
 */

#endif
