// The processes. Each is a function that returns when its work is done.

#ifndef PIPES_STAGES_H
#define PIPES_STAGES_H

#include "channel.h"
#include "options.h"

namespace pipes {

void run_reader(const Options &options, const Pipe &raw);
void run_enricher(const Options &options, const Pipe &raw, const Pipe &rich, int directory);
void run_writer(const Options &options, const Pipe &rich);
void run_directory(int client);

} // namespace pipes

#endif
