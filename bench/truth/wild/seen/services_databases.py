"""Databases whose memory is too small, or whose data have a layout that does not suit the queries.
"""
from services import at, mariadb, postgres, redis
from system import ITEMS, PGBENCH, System

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"CPU")

# Reads the price of one article at a time, from the whole catalogue or from a key of its own.
TILL = """
package main

import ("bufio"; "encoding/json"; "fmt"; "io"; "net"; "os"; "strconv"; "strings"; "time")

type Article struct { Name, Colour, Text string; Price, Stock int }

var connection net.Conn
var answers *bufio.Reader

func get(key string) []byte {
	fmt.Fprintf(connection, "*2\\r\\n$3\\r\\nGET\\r\\n$%d\\r\\n%s\\r\\n", len(key), key)
	line, _ := answers.ReadString('\\n')
	size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	value := make([]byte, size + 2)
	io.ReadFull(answers, value)
	return value[:size]
}

func set(key string, value interface{}) {
	text, _ := json.Marshal(value)
	fmt.Fprintf(connection, "*3\\r\\n$3\\r\\nSET\\r\\n$%d\\r\\n%s\\r\\n$%d\\r\\n%s\\r\\n", len(key), key, len(text), text)
	answers.ReadString('\\n')
}

func main() {
	connection, _ = net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	answers = bufio.NewReaderSize(connection, 1 << 18)
	whole := os.Args[2] == "whole"
	articles, _ := strconv.Atoi(os.Args[3])
	items, _ := strconv.Atoi(os.Args[4])
	catalogue := map[string]Article{}
	for i := 0; i < articles; i++ {
		name := fmt.Sprintf("article%d", i)
		catalogue[name] = Article{name, "blue", strings.Repeat("words ", 10), i * 7, i}
		set(name, catalogue[name])
	}
	set("catalogue", catalogue)
	begin, sum := time.Now(), 0
	for i := 0; i < items; i++ {
		name := fmt.Sprintf("article%d", i % articles)
		if whole {
			all := map[string]Article{}
			json.Unmarshal(get("catalogue"), &all)
			sum += all[name].Price
		} else {
			var one Article
			json.Unmarshal(get(name), &one)
			sum += one.Price
		}
	}
	fmt.Printf("items %d seconds %.3f (sum %d)\\n", items, time.Since(begin).Seconds(), sum)
}
"""


def small_pool(place):
    size = "512M" if place.fixed else "6M"
    port = mariadb(place, """
        create table ledger (id int primary key, amount int not null, note char(200) not null) engine=innodb;
        insert into ledger select seq, seq % 1000, md5(seq) from seq_1_to_250000""",
                   f"--innodb-buffer-pool-size={size}", "--innodb-flush-method=O_DIRECT", "--innodb-flush-log-at-trx-commit=0")
    place.run("mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root", "-e", "select sum(length(note)) from test.ledger")
    query = "select sum(l.amount) from (select floor(1 + rand() * 249999) as id from test.seq_1_to_200) x join test.ledger l on l.id = x.id"
    return ["mariadb-slap", "--no-defaults", "-h", "127.0.0.1", "-P", str(port), "-u", "root", "--create-schema=test", "--no-drop", "--concurrency=2",
            "--number-of-queries=400", f"--query={query}"]


def partitions(place):
    count = max(1, round(120 * place.fault))
    days = " ".join(f"create table day{i} partition of events for values from ({i}) to ({i + 1}); " for i in range(count))
    port = postgres(place, f"""create table events (id int, day int, note text) partition by range (day); {days}
        insert into events select i, i % {count}, md5(i::text) from generate_series(1, 20000) i; create index on events (id); analyze events""")
    script = place.write("lookup.sql", "\\set id random(1, 20000)\nselect note from events where id = :id;\n")
    return ["pgbench", *at(port), "-n", "-c", "2", "-j", "1", "-T", str(place.seconds), "-f", str(script), "postgres"]


def whole_catalogue(place):
    articles = max(1, round(140 * place.scale))
    return [str(place.go("till", TILL)), str(redis(place)), "single" if place.fixed else "whole", str(articles), "8000"]


SYSTEMS = [
    System(
        name="mariadb_small_buffer_pool",
        kind="buffer-pool-too-small",
        truth="the buffer pool of mariadbd has 5 MB for a table of 60 MB, so that it reads a page from the disk for nearly each row",
        load=small_pool,
        component=(r"maria(db)?d?\b", r"mysqld", r"\bdisk\b", r"\bvd[a-z]", r"\bsd[a-z]", r"nvme", r"ibd"),
        mechanism=(r"\bdisk\b", r"\breads?\b", r"\bI/O\b", r"block (device|request)", r"pages"),
        never=(r"\bsleeps", r"\block\b", r"sync"),
        needs=("mariadbd", "mariadb-install-db", "mariadb-slap"),
    ),
    System(
        name="postgres_many_partitions",
        kind="too-many-partitions",
        truth="postgres computes a plan over 120 partitions for each query, because the query does not name the day by which the table is split",
        load=partitions,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=RUNS,
        never=(r"\bdisk\b", r"\bsleeps", r"\bsync"),
        halves=True,
        needs=("psql", "pgbench"),
    ),
    System(
        name="go_whole_catalogue",
        kind="over-fetching",
        truth="till gets the whole catalogue from redis and parses its JSON for the price of one article",
        load=whole_catalogue,
        rate=ITEMS,
        component=(r"till",),
        mechanism=(*RUNS, r"pars", r"json", r"garbage"),
        never=(r"\bdisk\b", r"\bsleeps"),
        halves=True,
        needs=("redis-server", "go"),
    ),
]
