/*
 * The shared memory between a program with probes and the recorder: the one definition of its layout.
 *
 * Everything lives in one directory per user, /dev/shm/longpole-<uid> (LONGPOLE_RUNTIME_DIR overrides), mode 0700:
 *
 *   sites                   event classes of all programs of this user, filled on the first hit of each call site
 *   session                 the default that a recorder publishes for programs that are born later
 *   <pid>-<tag>.control     one per process; its first word is the enable word that every probe loads
 *   <pid>-<tag>.<n>.ring    one per thread that was recorded, n counts from 0
 *
 * The tag tells one execution from another of the same pid (exec keeps the pid). Files are made with mode 0400, and complete
 * before they get their name; who must write to them adds that permission for the instant of opening. The program's side
 * is longpole.h, the recorder's is crates/abi, and a test there proves that both views agree in every byte.
 *
 * All integers are of the machine's byte order (little endian on x86-64 and arm64). This header stands alone.
 */
#ifndef LONGPOLE_ABI_H
#define LONGPOLE_ABI_H

#include "types.h"

#define LONGPOLE_ABI_MAGIC 0x454c4f50474e4f4cULL /* "LONGPOLE" */
#define LONGPOLE_ABI_VERSION 1u

/* The control file's mapping replaces a page of .bss, so it has the largest page size of the architecture. */
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
 * Kinds of events. A kind's number is also the class id of its overflow class, whose name travels with each event.
 * Numbers never change their meaning.
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

/* Class ids below this one are overflow classes (equal to the kind); call sites get the others. */
#define LONGPOLE_FIRST_SITE_ID 64u

/* What happens to an event when its ring is full. */
enum longpole_mode {
	LONGPOLE_MODE_DISCARD = 0,   /* the newest is discarded and counted */
	LONGPOLE_MODE_OVERWRITE = 1, /* the oldest sub-buffer is overwritten */
	LONGPOLE_MODE_BLOCK = 2      /* the thread waits for a bounded time */
};

/* What the timestamps count. */
enum longpole_clock {
	LONGPOLE_CLOCK_COUNTER = 0, /* tsc on x86-64, cntvct on arm64 */
	LONGPOLE_CLOCK_MONO_RAW = 1 /* CLOCK_MONOTONIC_RAW in ns */
};

/*
 * What a recorder orders: in `session` for processes to come, in each control file for its process. `mask` is the enable
 * word; it is written last, with release order.
 */
struct longpole_orders {
	uint32_t mask;      /* categories that are recorded; 0: nothing */
	uint32_t mode;      /* enum longpole_mode */
	uint32_t ring_size; /* bytes of the ring that a thread makes for itself: a power of two, at least 32 KiB */
	uint32_t snaplen;   /* bytes kept of a packet */
	uint32_t clock;     /* enum longpole_clock */
	uint32_t block_limit; /* LONGPOLE_MODE_BLOCK: a thread waits so many microseconds at most */
	uint64_t session;   /* the recording; 0: none */
	uint64_t spare[4];
};

/* The file `session`. Its owner holds an open-file-description write lock on it; without that lock the orders are void. */
struct longpole_session {
	struct longpole_orders orders;
	uint64_t magic;
	uint32_t version;
	int32_t recorder;  /* pid */
	char path[1024];   /* directory of the recording, NUL-terminated */
};

/* The first bytes of a control file. */
struct longpole_control {
	struct longpole_orders orders; /* written by the recorder (at birth by the process, from `session`) */

	/* Written by the process. */
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint64_t birth;      /* counter at birth */
	uint64_t process;    /* address of the process's own table, meaningless to others */
	uint32_t rings;      /* number of ring files made so far: their numbers are 0 … rings-1 */
	uint32_t refused;    /* events that were not recorded because there was no memory for a ring */
	uint32_t refused_errno;
	uint32_t label_version; /* odd while the label is being changed */
	char label[256];
	char executable[256];
	uint64_t scope; /* LONGPOLE_SESSION of the environment: the recording whose command started this process; 0: none */
};

/*
 * A ring file: this header in the first 4 KiB, then `size` bytes of data in sub-buffers. Positions count bytes since the ring was
 * made and never fall; a position's place is `4096 + (position & mask)`. The thread writes the first line, the recorder the second.
 */
struct longpole_ring {
	/* The thread's line: all that a probe touches. */
	uint64_t head;  /* everything before is complete */
	uint64_t limit; /* an event that would end beyond takes the slow path; 0: every event does */
	uint64_t mask;  /* size - 1 */
	uint64_t last;  /* header of the newest event */
	uint64_t lost;  /* events discarded since the ring was made */
	uint64_t busy;  /* a probe is at work, with this stack pointer: a probe in a signal handler must step aside */
	uint8_t spare_byte;
	uint8_t nested; /* events in the side area */
	uint8_t packets; /* a captured packet is or was in this ring: only such rings are walked */
	uint8_t second_spare_byte;
	uint32_t state; /* enum longpole_ring_state */
	uint64_t events; /* written since the ring was made, `lost` not among them; grows before `head` does */

	/* The recorder's line. */
	uint64_t tail;            /* everything before has been taken */
	uint64_t pending_tail;    /* what tail becomes once the packet at pending_offset is committed */
	uint64_t pending_offset;  /* in the lane's file */
	uint64_t lost_reported;   /* `lost` as of the newest packet */
	uint32_t lane;            /* number of the lane, plus one */
	uint32_t successor;       /* number of a larger ring made for this thread, plus one; 0: none */
	uint64_t session;         /* recording that took this ring last */
	uint64_t spare_reader[2];

	/* Fixed when the ring is made, except for the owner, who changes only together with a sub-buffer. */
	uint64_t magic;
	uint32_t version;
	uint32_t number;
	uint64_t size;
	uint64_t subbuffer;       /* bytes of a sub-buffer, its header included */
	int32_t pid;
	int32_t tid;
	uint32_t clock;           /* enum longpole_clock */
	uint32_t nested_lost;     /* part of `lost`: the side area was full */
	char thread[32];
	uint32_t mode;            /* enum longpole_mode; the recorder may exchange discarding and blocking */
	uint32_t block_limit;     /* as in the orders */
	uint64_t gave_up;         /* by the thread: `tail` plus one when it had waited in vain; it waits again once that has moved */
	uint64_t waited;          /* by the thread: nanoseconds that it has waited for room */
	uint64_t taken;           /* by the recorder, overwriting: `events` at `tail` */
	uint64_t end;             /* by the thread: where the current sub-buffer ends; equal to head when it was closed early */
	uint8_t unused[776];

	/* Events of probes in signal handlers that interrupted a probe: 16 entries of 64 bytes. */
	uint8_t side[16][64];
	uint8_t rest[2048];
};

enum longpole_ring_state {
	LONGPOLE_RING_OWNED = 0, /* a thread writes it */
	LONGPOLE_RING_IDLE = 1,  /* its thread has ended; another may take it */
	LONGPOLE_RING_ENDED = 2  /* replaced by a larger one; nobody will write it again */
};

#define LONGPOLE_RING_DATA 4096u
#define LONGPOLE_SIDE_ENTRIES 16u
#define LONGPOLE_RING_SUBBUFFERS 4u
#define LONGPOLE_RING_MINIMUM 32768u
/* No thread waits longer for room, whatever its orders say; microseconds. */
#define LONGPOLE_BLOCK_MAXIMUM 10000000u

/* The begin of every sub-buffer. The room is that of the packet header in the trace, which the recorder writes itself. */
struct longpole_subbuffer {
	uint64_t begin;    /* full 64-bit counter when it was begun */
	uint64_t content;  /* bytes from the sub-buffer's begin to its last event's end, once it is complete */
	uint64_t lost;     /* the ring's `lost` when it was begun */
	uint64_t position; /* its own position; plus one while it is being begun: what stood here before is gone, and a reader sees that it was lapped */
	int32_t pid;
	int32_t tid;
	char thread[32];
	uint64_t events;   /* the ring's `events` when it was begun */
	uint8_t unused[168];
	uint64_t last;     /* header of its last event, once it is complete; 0: not told */
};

#define LONGPOLE_SUBBUFFER_HEADER 256u

/*
 * The file `sites`: this header, 65,536 slots, then an arena that grows. A slot holds the arena offset of its entry divided by 8;
 * 0: free. A slot's number is the class id. Entries are complete before one compare-and-swap publishes them; they never change.
 */
#define LONGPOLE_SITE_SLOTS 65536u
#define LONGPOLE_SITE_PROBES 64u /* slots looked at before a site goes to the overflow class */
#define LONGPOLE_SITE_ARENA_STEP (1u << 20)
#define LONGPOLE_SITE_ARENA_MAXIMUM (64u << 20)

struct longpole_sites {
	uint64_t magic;
	uint32_t version;
	uint32_t used;       /* sites published; a hint */
	uint64_t arena_next; /* bytes of the arena given out, from the arena's begin */
	uint64_t arena_size; /* bytes of the arena that are backed by memory */
	uint8_t unused[4096 - 32];
	uint32_t slots[LONGPOLE_SITE_SLOTS];
};

/* An entry of the arena; the texts follow without NUL: name, fields, file, attributes. */
struct longpole_site {
	uint32_t size; /* with texts, a multiple of 8 */
	uint16_t kind;
	uint16_t name_size;
	uint16_t fields_size;
	uint16_t file_size;
	uint16_t attributes_size;
	uint16_t reserved;
	uint32_t line;
	uint32_t hash; /* of kind and texts */
};

#define LONGPOLE_NAME_MAXIMUM 255u
#define LONGPOLE_FIELDS_MAXIMUM 1023u

/*
 * `fields` of a site: comma-separated `type:name`. Types: u uint64, x uint64 shown in hexadecimal, i int64, d double,
 * k kind of a mark (uint64), s string (NUL-terminated, padded to 8 bytes), w uint32 (they come in pairs),
 * b bytes (uint64 length, then the bytes, padded to 8), u1[] … u8[], i1[] … i8[], d4[], d8[] arrays (uint64 number of elements, then these,
 * padded to 8), e[red=0;green=1] an int64 whose values have names.
 */

#endif
