/*
 * Names of probes. A literal is resolved once per call site. A handle (`struct longpole_name`) is
 * resolved once per kind of probe, wherever it is used. Any other text is copied into each event.
 */
#ifndef LONGPOLE_NAME_H
#define LONGPOLE_NAME_H

#include "ring.h"
#include "site.h"
#if defined(LONGPOLE_SDT)
#include "usdt.h"
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define LONGPOLE_FIFO 0u
#define LONGPOLE_LIFO 1u
#define LONGPOLE_ITEMS 0u
#define LONGPOLE_BYTES 1u

/* Number of event classes per kind: a probe has different classes with and without arguments, at
 * most four. */
#define LONGPOLE_VARIANTS 4u

/* A name that is made at run time, with its class ids. It must outlive its use; `text` is not
 * copied. */
struct longpole_name {
	const char *text;
	uint64_t capacity; /* capacity of a queue; 0: unknown */
	uint32_t order;    /* LONGPOLE_FIFO, LONGPOLE_LIFO */
	uint32_t unit;     /* LONGPOLE_ITEMS, LONGPOLE_BYTES */
	uint32_t queue;    /* 1 if this is a queue, so that order and unit are valid */
	uint32_t ids[LONGPOLE_KIND_COUNT * LONGPOLE_VARIANTS];
};

#if defined(__cplusplus)
#define LONGPOLE_NAME_INIT_(text, capacity, order, unit, queue) longpole_name{text, capacity, order, unit, queue, {}}
#else
#define LONGPOLE_NAME_INIT_(text, capacity, order, unit, queue) {text, capacity, order, unit, queue, {0}}
#endif
#define LONGPOLE_NAME(text) LONGPOLE_NAME_INIT_(text, 0, 0, 0, 0)
#define LONGPOLE_QUEUE_NAME(text, capacity, order, unit) LONGPOLE_NAME_INIT_(text, capacity, order, unit, 1)

/* The name argument of a probe. */
struct longpole_ref {
	const char *text;
	size_t size;
	struct longpole_name *name; /* a handle, or NULL */
	int literal;
};

LONGPOLE_INLINE int longpole_on(uint32_t category)
{
	return (__atomic_load_n(&longpole_page.orders.mask, __ATOMIC_RELAXED) & category) != 0;
}

/*
 * LONGPOLE_WANTED_ tests if a probe is recorded or, with sdt.h, if a debugger is attached to it. In
 * the latter case LONGPOLE_PASS_ first executes the place to which debuggers attach; then the probe
 * returns, unless it is also recorded.
 */
#if defined(LONGPOLE_SDT)
#define LONGPOLE_WANTED_(category) (longpole_on(category) || longpole_sdt_wanted())
#define LONGPOLE_PASS_(kind, ref, a, b, c)                                                                               \
	do {                                                                                                                 \
		if (longpole_sdt_wanted()) {                                                                                     \
			const struct longpole_ref longpole_passed_ = ref;                                                            \
			longpole_pass(kind, &longpole_passed_, a, b, c);                                                             \
			if (!longpole_on(longpole_category_of(kind)))                                                                \
				return;                                                                                                  \
		}                                                                                                                \
	} while (0)

LONGPOLE_SLOW void longpole_pass(uint32_t kind, const struct longpole_ref *ref, uint64_t a, uint64_t b, uint64_t c)
{
	const char *text = ref->name != NULL ? ref->name->text : ref->text;
	const size_t size = longpole_length(text, ref->name != NULL ? LONGPOLE_NAME_MAXIMUM : ref->size);
	if (text == NULL)
		longpole_sdt_fire(kind, a, b, c, 0, 0);
	else
		longpole_sdt_fire(kind, (uintptr_t)text, size, a, b, c);
}
#else
#define LONGPOLE_WANTED_(category) longpole_on(category)
#define LONGPOLE_PASS_(kind, ref, a, b, c) ((void)0)
#endif

/* The static data of a call site. */
struct longpole_where {
	uint32_t *id; /* class id of this probe; 0 until it is resolved */
	const char *file;
	uint32_t line;
};

LONGPOLE_SLOW size_t longpole_attributes_of(const struct longpole_name *name, char *buffer, size_t capacity)
{
	size_t length = 0;
	buffer[0] = 0;
	if (!name->queue)
		return 0;
	length = longpole_append(buffer, capacity, length, name->order == LONGPOLE_LIFO ? "order=lifo" : "order=fifo");
	length = longpole_append(buffer, capacity, length, name->unit == LONGPOLE_BYTES ? "&unit=bytes" : "&unit=items");
	if (name->capacity != 0) {
		length = longpole_append(buffer, capacity, length, "&capacity=");
		length = longpole_append_number(buffer, capacity, length, name->capacity, 10, 0);
	}
	return length;
}

/* Resolves a class id and caches it. An id below LONGPOLE_FIRST_SITE_ID is the overflow class. */
LONGPOLE_SLOW uint32_t longpole_resolve(const struct longpole_where *where, const struct longpole_ref *ref, uint32_t kind,
                                        uint32_t variant, const char *fields)
{
	char attributes[96];
	struct longpole_key key;
	uint32_t *memory = where->id;
	if (ref->name == NULL && !ref->literal)
		return kind;
	attributes[0] = 0;
	key.kind = kind;
	key.line = where->line;
	key.name = ref->text;
	key.name_size = ref->size;
	key.fields = fields;
	key.fields_size = longpole_length(fields, LONGPOLE_FIELDS_MAXIMUM + 1);
	key.file = where->file;
	key.file_size = longpole_length(where->file, 65536);
	key.attributes = attributes;
	key.attributes_size = 0;
	if (ref->name != NULL) {
		/* A handle has no file and line, so that it is the same class in all programs. */
		memory = &ref->name->ids[kind * LONGPOLE_VARIANTS + variant];
		key.line = 0;
		key.file_size = 0;
		key.name = ref->name->text;
		key.name_size = longpole_length(key.name, LONGPOLE_NAME_MAXIMUM);
		key.attributes_size = longpole_attributes_of(ref->name, attributes, sizeof attributes);
	}
	uint32_t id = __atomic_load_n(memory, __ATOMIC_RELAXED);
	if (id == 0) {
		id = longpole_site_find(&key);
		__atomic_store_n(memory, id, __ATOMIC_RELAXED);
	}
	return id;
}

/* Number of words of an overflow class before its name. */
LONGPOLE_INLINE uint32_t longpole_overflow_words(uint32_t kind)
{
	switch (kind) {
	case LONGPOLE_KIND_STATE:
	case LONGPOLE_KIND_SPAN_BEGIN:
	case LONGPOLE_KIND_SPAN_END:
	case LONGPOLE_KIND_SIGNAL_WAIT:
	case LONGPOLE_KIND_QUEUE_WAIT_EMPTY:
	case LONGPOLE_KIND_QUEUE_WAIT_FULL:
	case LONGPOLE_KIND_EVENT:
		return 0;
	case LONGPOLE_KIND_MARK:
		return 3;
	default:
		return 1;
	}
}

/* Records the first event of a site, and every event that includes its name. */
LONGPOLE_SLOW void longpole_probe_slow(const struct longpole_where *where, const struct longpole_ref *ref, uint32_t kind,
                                       uint32_t variant, const char *fields, const uint64_t *words, uint32_t count)
{
	const uint32_t id = longpole_resolve(where, ref, kind, variant, fields);
	if (id >= LONGPOLE_FIRST_SITE_ID) {
		longpole_emit_slow(id, words, count);
		return;
	}
	uint64_t known[3] = {0, 0, 0};
	for (uint32_t i = 0; i < count && i < 3; i++)
		known[i] = words[i];
	if (kind == LONGPOLE_KIND_COUNTER && variant == 1) {
		/* The overflow class of gauges has an integer value only. */
		double value;
		__builtin_memcpy(&value, known, 8);
		known[0] = (uint64_t)(int64_t)value;
	}
	const char *text = ref->name != NULL ? ref->name->text : ref->text;
	const size_t size = ref->name != NULL ? longpole_length(text, LONGPOLE_NAME_MAXIMUM) : ref->size;
	struct longpole_part parts[2] = {
	    {known, 8 * longpole_overflow_words(kind), 0},
	    {text, (uint32_t)longpole_length(text, size < LONGPOLE_NAME_MAXIMUM ? size : LONGPOLE_NAME_MAXIMUM), 1},
	};
	longpole_emit_parts(kind, parts, 2, 0);
}

LONGPOLE_INLINE uint32_t longpole_known_id(const struct longpole_where *where, const struct longpole_ref *ref, uint32_t kind,
                                           uint32_t variant)
{
	if (ref->name != NULL)
		return __atomic_load_n(&ref->name->ids[kind * LONGPOLE_VARIANTS + variant], __ATOMIC_RELAXED);
	return ref->literal ? __atomic_load_n(where->id, __ATOMIC_RELAXED) : 0;
}

/* A probe of `count` words. Kind, variant, fields and count are compile-time constants. */
LONGPOLE_INLINE void longpole_probe(struct longpole_where where, struct longpole_ref ref, uint32_t kind, uint32_t variant,
                                    const char *fields, const uint64_t *words, uint32_t count)
{
	LONGPOLE_PASS_(kind, ref, count > 0 ? words[0] : 0, count > 1 ? words[1] : 0, count > 2 ? words[2] : 0);
	const uint32_t id = ref.name != NULL  ? __atomic_load_n(&ref.name->ids[kind * LONGPOLE_VARIANTS + variant], __ATOMIC_RELAXED)
	                    : ref.literal ? __atomic_load_n(where.id, __ATOMIC_RELAXED)
	                                  : 0;
	if (LONGPOLE_LIKELY(id >= LONGPOLE_FIRST_SITE_ID)) {
		longpole_emit(id, words, count);
	} else {
		/* Works on copies, so that the compiler can keep the arguments in registers on the fast
		 * path. */
		const struct longpole_where here = where;
		const struct longpole_ref name = ref;
		uint64_t copy[3] = {0, 0, 0};
		for (uint32_t i = 0; i < count; i++)
			copy[i] = words[i];
		longpole_probe_slow(&here, &name, kind, variant, fields, copy, count);
	}
}

LONGPOLE_INLINE void longpole_probe0(struct longpole_where where, struct longpole_ref ref, uint32_t kind)
{
	longpole_probe(where, ref, kind, 0, "", NULL, 0);
}

/* Appends the text of a name of any kind. */
LONGPOLE_SLOW size_t longpole_append_name(char *buffer, size_t capacity, size_t length, const struct longpole_ref *ref)
{
	const char *text = ref->name != NULL ? ref->name->text : ref->text;
	size_t size = ref->name != NULL || ref->size > LONGPOLE_NAME_MAXIMUM ? LONGPOLE_NAME_MAXIMUM : ref->size;
	size = longpole_length(text, size < capacity - length ? size : capacity - length);
	longpole_copy(buffer + length, text, size);
	return length + size;
}

LONGPOLE_SLOW void longpole_state_slow(const struct longpole_where *where, const struct longpole_ref *machine,
                                       const struct longpole_ref *state)
{
	char text[LONGPOLE_NAME_MAXIMUM];
	size_t length = longpole_append_name(text, sizeof text, 0, machine);
	/* A long name of a machine is cut so that there is room for the state. */
	if (length > sizeof text / 2)
		length = sizeof text / 2;
	text[length++] = ':';
	text[length++] = ':';
	length = longpole_append_name(text, sizeof text, length, state);
	const struct longpole_ref ref = {text, length, NULL, machine->literal && state->literal};
	longpole_probe_slow(where, &ref, LONGPOLE_KIND_STATE, 0, "", NULL, 0);
}

LONGPOLE_INLINE void longpole_state(struct longpole_where where, struct longpole_ref machine, struct longpole_ref state)
{
	LONGPOLE_PASS_(LONGPOLE_KIND_STATE, machine, (uintptr_t)(state.name != NULL ? state.name->text : state.text),
	               state.name != NULL ? longpole_length(state.name->text, LONGPOLE_NAME_MAXIMUM) : longpole_length(state.text, state.size), 0);
	const uint32_t id = machine.literal && state.literal ? __atomic_load_n(where.id, __ATOMIC_RELAXED) : 0;
	if (LONGPOLE_LIKELY(id >= LONGPOLE_FIRST_SITE_ID)) {
		longpole_emit(id, NULL, 0);
	} else {
		const struct longpole_where here = where;
		const struct longpole_ref first = machine, second = state;
		longpole_state_slow(&here, &first, &second);
	}
}

LONGPOLE_INLINE void longpole_probe1(struct longpole_where where, struct longpole_ref ref, uint32_t kind, uint32_t variant,
                                     const char *fields, uint64_t a)
{
	const uint64_t words[1] = {a};
	longpole_probe(where, ref, kind, variant, fields, words, 1);
}

LONGPOLE_INLINE void longpole_probe2(struct longpole_where where, struct longpole_ref ref, uint32_t kind, uint32_t variant,
                                     const char *fields, uint64_t a, uint64_t b)
{
	const uint64_t words[2] = {a, b};
	longpole_probe(where, ref, kind, variant, fields, words, 2);
}

LONGPOLE_INLINE void longpole_probe3(struct longpole_where where, struct longpole_ref ref, uint32_t kind, uint32_t variant,
                                     const char *fields, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t words[3] = {a, b, c};
	longpole_probe(where, ref, kind, variant, fields, words, 3);
}

/* Records a captured frame, cut at the recorder's snaplen. */
LONGPOLE_SLOW void longpole_packet_slow(const struct longpole_where *where, struct longpole_ref ref, uint32_t direction,
                                        const void *bytes, size_t length)
{
	uint32_t id = longpole_known_id(where, &ref, LONGPOLE_KIND_PACKET, 0);
	if (id < LONGPOLE_FIRST_SITE_ID)
		id = longpole_resolve(where, &ref, LONGPOLE_KIND_PACKET, 0, "w:direction,w:length,b:bytes");
	uint64_t captured = longpole_page.orders.snaplen;
	if (captured == 0 || captured > LONGPOLE_EVENT_MAXIMUM - 512)
		captured = LONGPOLE_EVENT_MAXIMUM - 512;
	if (captured > length)
		captured = length;
	const uint32_t words[4] = {direction, length < LONGPOLE_U32_MAX ? (uint32_t)length : LONGPOLE_U32_MAX, (uint32_t)captured, 0};
	const char *text = ref.name != NULL ? ref.name->text : ref.text;
	const struct longpole_part parts[3] = {
	    {words, sizeof words, 0},
	    {bytes, (uint32_t)captured, 0},
	    {text, (uint32_t)longpole_length(text, ref.name != NULL || ref.size > LONGPOLE_NAME_MAXIMUM ? LONGPOLE_NAME_MAXIMUM : ref.size), 1},
	};
	longpole_emit_parts(id, parts, id < LONGPOLE_FIRST_SITE_ID ? 3 : 2, 1);
}

LONGPOLE_INLINE void longpole_packet(const struct longpole_where *where, struct longpole_ref ref, uint32_t direction,
                                     const void *bytes, size_t length)
{
	LONGPOLE_PASS_(LONGPOLE_KIND_PACKET, ref, direction, (uintptr_t)bytes, length);
	longpole_packet_slow(where, ref, direction, bytes, length);
}

/* link(from, to), flow(id) */
LONGPOLE_INLINE void longpole_link(uint32_t kind, const uint64_t *words, uint32_t count)
{
#if defined(LONGPOLE_SDT)
	const struct longpole_ref none = {NULL, 0, NULL, 0};
#endif
	LONGPOLE_PASS_(kind, none, words[0], count > 1 ? words[1] : 0, 0);
	longpole_emit(kind, words, count);
}

LONGPOLE_SLOW void longpole_log_slow(struct longpole_ref text)
{
	const size_t room = LONGPOLE_EVENT_MAXIMUM - 64;
	const struct longpole_part part = {text.text, (uint32_t)longpole_length(text.text, text.size < room ? text.size : room), 1};
	longpole_emit_parts(LONGPOLE_KIND_LOG, &part, 1, 0);
}

LONGPOLE_INLINE void longpole_log(struct longpole_ref text)
{
	LONGPOLE_PASS_(LONGPOLE_KIND_LOG, text, 0, 0, 0);
	longpole_log_slow(text);
}

LONGPOLE_SLOW void longpole_set_label(struct longpole_ref label)
{
	longpole_write_label(label.text, label.size);
}

/* Values of an event's field that take more than one word; made by LONGPOLE_ARRAY and
 * LONGPOLE_ENUM. */
struct longpole_array {
	const void *elements;
	size_t count;
	char type;  /* u, i, d as in abi.h */
	char width; /* size of an element in bytes */
};

struct longpole_enum {
	int64_t value;
	const char *labels; /* "red=0;green=1" */
};

/* Maximum number of fields of an event. */
#define LONGPOLE_EVENT_FIELDS 16u

/* One field of a user-defined event. */
struct longpole_field {
	const char *name;
	uint64_t word;    /* the value; for an array the number of its elements */
	const char *text; /* a text, the elements of an array, or the names of an enumeration's values */
	size_t size;
	char type;  /* u, i, d, x, s, e as in abi.h */
	char width; /* size of an array's elements in bytes; 0: not an array */
};

/* Returns 1 if the names of an enumeration's values have the format `name=number`, separated by
 * semicolons. */
LONGPOLE_SLOW int longpole_labels_are_good(const char *labels)
{
	if (labels == NULL)
		return 0;
	for (;;) {
		size_t name = 0, digits = 0;
		for (; *labels != 0 && *labels != '=' && *labels != ';'; labels++, name++)
			if (*labels == ',' || *labels == ':' || *labels == '[' || *labels == ']')
				return 0;
		if (name == 0 || *labels++ != '=')
			return 0;
		labels += *labels == '-';
		for (; *labels >= '0' && *labels <= '9'; labels++)
			digits++;
		if (digits == 0 || digits > 18)
			return 0;
		if (*labels == 0)
			return 1;
		if (*labels++ != ';')
			return 0;
	}
}

LONGPOLE_SLOW size_t longpole_append_type(char *buffer, size_t capacity, size_t length, const struct longpole_field *field)
{
	char type[5] = {field->type, 0, 0, 0, 0};
	if (field->width != 0) {
		type[1] = (char)('0' + field->width);
		type[2] = '[';
		type[3] = ']';
	} else if (field->type == 'e') {
		if (longpole_labels_are_good(field->text)) {
			length = longpole_append(buffer, capacity, length, "e[");
			length = longpole_append(buffer, capacity, length, field->text);
			return longpole_append(buffer, capacity, length, "]:");
		}
		type[0] = 'i';
	}
	return longpole_append(buffer, capacity, longpole_append(buffer, capacity, length, type), ":");
}

/* Returns 1 if the last name in the description of fields, which begins at `begin`, also occurs
 * before it. No type contains a colon. */
LONGPOLE_SLOW int longpole_is_twin(const char *text, size_t begin, size_t length)
{
	const size_t size = length - begin;
	for (size_t at = 1; at + size < begin; at++)
		if (text[at - 1] == ':' && text[at + size] == ',' && __builtin_memcmp(text + at, text + begin, size) == 0)
			return 1;
	return 0;
}

LONGPOLE_SLOW void longpole_event_slow(const struct longpole_where *where, const struct longpole_ref *ref,
                                       const struct longpole_field *fields, uint32_t count)
{
	struct longpole_part parts[2 * LONGPOLE_EVENT_FIELDS];
	uint64_t counts[LONGPOLE_EVENT_FIELDS];
	uint32_t made = 0;
	size_t room = LONGPOLE_EVENT_MAXIMUM - 8 - 16 * (size_t)count;
	uint32_t id = longpole_known_id(where, ref, LONGPOLE_KIND_EVENT, 0);
	if (id < LONGPOLE_FIRST_SITE_ID) {
		char text[LONGPOLE_FIELDS_MAXIMUM + 1];
		size_t length = 0;
		text[0] = 0;
		for (uint32_t i = 0; i < count; i++) {
			if (i != 0)
				length = longpole_append(text, sizeof text, length, ",");
			length = longpole_append_type(text, sizeof text, length, &fields[i]);
			const size_t begin = length;
			length = longpole_append(text, sizeof text, length, fields[i].name);
			/* Other characters would make the event unreadable. */
			for (size_t at = begin; at < length; at++) {
				const char c = text[at];
				const int digit = c >= '0' && c <= '9';
				if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (digit && at != begin)))
					text[at] = '_';
			}
			/* Two fields of one name could not be distinguished, and the name with its number may
			 * be the name of another field. */
			for (uint32_t turn = 0; turn <= i && (length == begin || longpole_is_twin(text, begin, length)); turn++)
				length = longpole_append_number(text, sizeof text, longpole_append(text, sizeof text, length, "_"), i, 10, 0);
		}
		/* A truncated description would describe another event. */
		id = length < sizeof text - 1 ? longpole_resolve(where, ref, LONGPOLE_KIND_EVENT, 0, text) : (uint32_t)LONGPOLE_KIND_EVENT;
	}
	if (id < LONGPOLE_FIRST_SITE_ID) {
		/* Without a class there is no description of the fields, so only the name of the event is
		 * recorded. */
		const char *text = ref->name != NULL ? ref->name->text : ref->text;
		const size_t size = ref->name != NULL || ref->size > LONGPOLE_NAME_MAXIMUM ? LONGPOLE_NAME_MAXIMUM : ref->size;
		const struct longpole_part part = {text, (uint32_t)longpole_length(text, size), 1};
		longpole_emit_parts(LONGPOLE_KIND_EVENT, &part, 1, 0);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct longpole_part *part = &parts[made++];
		part->bytes = &fields[i].word;
		part->size = 8;
		part->terminated = 0;
		if (fields[i].type == 's') {
			const char *value = fields[i].text != NULL ? fields[i].text : "";
			size_t size = longpole_length(value, fields[i].text != NULL ? fields[i].size : 0);
			if (size > room)
				size = room;
			room -= size;
			part->bytes = value;
			part->size = (uint32_t)size;
			part->terminated = 1;
		} else if (fields[i].width != 0) {
			const size_t width = (size_t)fields[i].width;
			counts[i] = fields[i].text == NULL ? 0 : fields[i].word < room / width ? fields[i].word : room / width;
			const size_t size = (size_t)counts[i] * width;
			room -= size;
			part->bytes = &counts[i];
			part = &parts[made++];
			part->bytes = fields[i].text;
			part->size = (uint32_t)size;
			part->terminated = 0;
		}
	}
	longpole_emit_parts(id, parts, made, 0);
}

LONGPOLE_INLINE void longpole_event(const struct longpole_where *where, const struct longpole_ref *ref,
                                    const struct longpole_field *fields, uint32_t count)
{
	LONGPOLE_PASS_(LONGPOLE_KIND_EVENT, *ref, count, (uintptr_t)fields, 0);
	longpole_event_slow(where, ref, fields, count);
}

/* A span that ends with its scope. */
struct longpole_span {
	struct longpole_where where;
	struct longpole_ref ref;
};

LONGPOLE_INLINE void longpole_span_close(struct longpole_span *span)
{
	if (LONGPOLE_WANTED_(LONGPOLE_CATEGORY_SPAN))
		longpole_probe0(span->where, span->ref, LONGPOLE_KIND_SPAN_END);
}

#if defined(__cplusplus)
}
#endif

#endif
