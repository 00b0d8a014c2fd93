// The second stage: splits lines into fields and adds the name of the client's network.
//
// It has a table of all customers. For the few other networks it calls the directory, once per turn
// for all of them together.

#include "directory.h"
#include "flat_table.h"
#include "names.h"
#include "stages.h"
#include "text.h"

#include <string_view>
#include <vector>

namespace pipes {

namespace {

struct Record {
	std::string_view line;
	std::string_view item;
	uint32_t network;
	uint32_t status;
	uint64_t bytes;
	uint64_t duration_us;
	Name name;
};

uint32_t network_of(std::string_view address)
{
	uint32_t network = 0;
	for (int part = 0; part < 3; part++) {
		size_t dot = address.find('.');
		network = network << 8 | uint32_t(number(address.substr(0, dot)));
		address.remove_prefix(dot + 1);
	}
	return network;
}

Record split(std::string_view line)
{
	Record record{};
	record.line = line;
	Fields fields(line);
	fields.next(); // time
	record.network = network_of(fields.next());
	fields.next(); // method
	record.item = fields.next();
	record.status = uint32_t(number(fields.next()));
	record.bytes = number(fields.next());
	record.duration_us = number(fields.next());
	return record;
}

class Table
{
public:
	Table() : list_(customers())
	{
		for (const Customer &customer : list_)
			hashed_[customer.network] = customer.name;
	}

	const Name *find(uint32_t network) const { return hashed_.find(network); }

	const Name *scan(uint32_t network) const
	{
		for (const Customer &customer : list_)
			if (customer.network == network)
				return &customer.name;
		return nullptr;
	}

private:
	std::vector<Customer> list_;
	FlatTable<uint32_t, Name> hashed_;
};

class Enricher
{
public:
	Enricher(Slow slow, int directory) : slow_(slow), directory_(directory) {}

	void name_all(std::vector<Record> &records)
	{
		LONGPOLE_SPAN(N_FIND, records.size());
		strangers_.clear();
		unknown_.clear();
		for (Record &record : records) {
			if (slow_ == Slow::enricher_rpc) {
				LONGPOLE_SPAN(N_ASK, 1);
				directory_.resolve(&record.network, 1, &record.name);
				continue;
			}
			const Name *name = slow_ == Slow::enricher_scan ? table_.scan(record.network) : table_.find(record.network);
			if (name) {
				record.name = *name;
			} else {
				strangers_.push_back(&record);
				unknown_.push_back(record.network);
			}
		}
		if (strangers_.empty())
			return;
		LONGPOLE_SPAN(N_ASK, unknown_.size());
		answers_.resize(unknown_.size());
		directory_.resolve(unknown_.data(), unknown_.size(), answers_.data());
		for (size_t i = 0; i < strangers_.size(); i++)
			strangers_[i]->name = answers_[i];
	}

private:
	Slow slow_;
	Table table_;
	Directory directory_;
	std::vector<Record *> strangers_;
	std::vector<uint32_t> unknown_;
	std::vector<Name> answers_;
};

// Grade of an answer by its duration: fast, good or slow.
std::string_view grade(uint64_t duration_us)
{
	return duration_us < 100000 ? " fast\n" : duration_us < 500000 ? " good\n" : " slow\n";
}

// Longest line: the longest line of the reader (84 bytes), a blank, the name, and the grade.
constexpr size_t longest_line = 84 + 1 + name_bytes + 6;

void pass_on(const std::vector<Record> &records, Outlet &outlet)
{
	LONGPOLE_SPAN(N_COMPOSE, records.size());
	char batch[batch_bytes];
	Pen pen(batch);
	for (const Record &record : records) {
		if (size_t(pen.at() - batch) + longest_line > batch_bytes) {
			outlet.send(batch, size_t(pen.at() - batch));
			pen = Pen(batch);
		}
		pen.text(record.line);
		pen.put(' ');
		pen.text(record.name.view());
		pen.text(grade(record.duration_us));
	}
	if (pen.at() != batch)
		outlet.send(batch, size_t(pen.at() - batch));
}

} // namespace

void run_enricher(const Options &options, const Pipe &raw, const Pipe &rich, int directory)
{
	Inlet inlet(raw, N_RAW_LINES);
	Outlet outlet(rich, N_RICH_LINES);
	Enricher enricher(options.slow, directory);
	std::vector<char> turn(inlet.capacity());
	std::vector<Record> records;

	while (size_t count = inlet.receive(turn.data(), turn.size())) {
		records.clear();
		{
			LONGPOLE_SPAN(N_SPLIT, count);
			std::string_view rest(turn.data(), count);
			while (!rest.empty())
				records.push_back(split(take_line(rest)));
		}
		enricher.name_all(records);
		pass_on(records, outlet);
	}
}

} // namespace pipes
