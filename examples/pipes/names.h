// Every name that the probes of this example write. They are string literals, because an event with
// a literal name needs only 8 bytes.

#ifndef PIPES_NAMES_H
#define PIPES_NAMES_H

// Processes.
#define N_READER "log_reader"
#define N_ENRICHER "log_enricher"
#define N_WRITER "log_writer"
#define N_DIRECTORY "net_directory"

// Queues.
#define N_RAW_LINES "raw_lines"
#define N_RICH_LINES "rich_lines"

// States of the reader.
#define N_DRAW "draw_hits"
#define N_FORMAT "format_lines"

// States of the enricher.
#define N_SPLIT "split_lines"
#define N_FIND "find_network"
#define N_ASK "ask_directory"
#define N_COMPOSE "compose_lines"

// States of the writer.
#define N_DISSECT "dissect_lines"
#define N_COUNT "count_hits"
#define N_PAGE "append_page"

// The call, and the state of the process that serves it.
#define N_RESOLVE "resolve_networks"
#define N_SERVE "search_registry"

#endif
