// The last stage: counts hits and bytes per network and grade, and writes pages of summary lines.

#include "flat_table.h"
#include "names.h"
#include "networks.h"
#include "stages.h"
#include "text.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace pipes {

namespace {

constexpr size_t page_bytes = 65536;

struct Row {
	std::string_view item;
	std::string_view status;
	std::string_view network;
	std::string_view grade;
	uint64_t bytes;
};

Row dissect(std::string_view line)
{
	Row row{};
	Fields fields(line);
	fields.next(); // time
	fields.next(); // address
	fields.next(); // method
	row.item = fields.next();
	row.status = fields.next();
	row.bytes = number(fields.next());
	fields.next(); // duration
	row.network = fields.next();
	row.grade = fields.next();
	return row;
}

struct Sum {
	uint64_t hits = 0;
	uint64_t bytes = 0;
	uint64_t slow = 0;
};

class Writer
{
public:
	explicit Writer(const Options &options) : slow_(options.slow)
	{
		fd_ = open(options.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (fd_ < 0)
			die(options.output);
	}
	~Writer() { close(fd_); }
	Writer(const Writer &) = delete;
	Writer &operator=(const Writer &) = delete;

	void turn(std::string_view lines)
	{
		rows_.clear();
		{
			LONGPOLE_SPAN(N_DISSECT, lines.size());
			while (!lines.empty())
				rows_.push_back(dissect(take_line(lines)));
		}
		{
			LONGPOLE_SPAN(N_COUNT, rows_.size());
			for (const Row &row : rows_) {
				Name name{};
				std::memcpy(name.text.data(), row.network.data(), std::min(row.network.size(), name_bytes));
				Sum &sum = sums_[name];
				sum.hits++;
				sum.bytes += row.bytes;
				sum.slow += row.grade == "slow";
			}
		}
		LONGPOLE_SPAN(N_PAGE, rows_.size());
		for (const Row &row : rows_)
			append(row);
		records_ += rows_.size();
	}

	void finish() { write_page(); }

	uint64_t records() const { return records_; }

	// A digest of all counts and all bytes of the pages. It is equal for equal input, with any
	// fault.
	uint64_t digest() const
	{
		uint64_t digest = page_digest_;
		sums_.each([&](const Name &network, const Sum &sum) {
			digest += mixed(hash(network) ^ mixed(sum.hits ^ mixed(sum.bytes ^ mixed(sum.slow))));
		});
		return digest;
	}

private:
	void append(const Row &row)
	{
		if (page_.size() >= page_bytes)
			write_page();
		if (slow_ == Slow::writer_join) {
			page_ = page_ + std::string(row.network) + ' ' + std::string(row.status) + ' ' + std::string(row.grade) + ' ' +
			        std::string(row.item) + '\n';
			return;
		}
		page_.append(row.network).append(1, ' ').append(row.status).append(1, ' ').append(row.grade).append(1, ' ');
		page_.append(row.item).append(1, '\n');
	}

	void write_page()
	{
		page_digest_ = mixed(page_digest_ ^ std::hash<std::string>()(page_));
		for (size_t done = 0; done < page_.size();) {
			ssize_t count = write(fd_, page_.data() + done, page_.size() - done);
			if (count < 0)
				die("write a page");
			done += size_t(count);
		}
		page_.clear();
	}

	Slow slow_;
	int fd_;
	std::vector<Row> rows_;
	FlatTable<Name, Sum> sums_;
	std::string page_;
	uint64_t page_digest_ = 0;
	uint64_t records_ = 0;
};

} // namespace

void run_writer(const Options &options, const Pipe &rich)
{
	Inlet inlet(rich, N_RICH_LINES);
	Writer writer(options);
	std::vector<char> turn(inlet.capacity());
	timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (size_t count = inlet.receive(turn.data(), turn.size()))
		writer.turn({turn.data(), count});
	writer.finish();
	clock_gettime(CLOCK_MONOTONIC, &end);
	double seconds = double(end.tv_sec - begin.tv_sec) + double(end.tv_nsec - begin.tv_nsec) / 1e9;
	std::printf("%llu records in %.0f ms: %.0f records/s, digest %016llx\n",
	            static_cast<unsigned long long>(writer.records()), seconds * 1e3, double(writer.records()) / seconds,
	            static_cast<unsigned long long>(writer.digest()));
	std::fflush(stdout);
}

} // namespace pipes
