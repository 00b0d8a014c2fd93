"""The web site and archive of a regional broadcaster: five frequent faults around its live pages,
comments, log files and search index, and two healthy parts of the same house.
"""
from services import PHP_FPM, mariadb, nginx, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The page of a match asks the league's feed, which answers after 10 ms, and renders the table.
SCOREBOARD = """
const http = require("http");
const [port, feed] = process.argv.slice(2, 4).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

function render(match) {
  const teams = Array.from({ length: 220 }, (_, i) => ({
    name: "Club " + (i * 7919 % 220), points: (i * 31 + match.home * 3) % 97, goals: (i * 17 + match.guest) % 61 }));
  teams.sort((a, b) => b.points - a.points || b.goals - a.goals || a.name.localeCompare(b.name));
  const rows = teams.map((team, i) => `<tr><td>${i + 1}</td><td>${team.name}</td><td>${team.points}</td></tr>`);
  return `<h1>${match.home} : ${match.guest}</h1><table>${rows.join("")}</table>`;
}

http.createServer((request, response) => {
  http.get({ host: "127.0.0.1", port: feed, path: request.url, agent }, answer => {
    let text = "";
    answer.setEncoding("utf8");
    answer.on("data", piece => text += piece);
    answer.on("end", () => {
      response.setHeader("Content-Type", "text/html");
      response.end(render(JSON.parse(text)));
    });
  });
}).listen(port, "127.0.0.1");
"""
LEAGUEFEED = """
package main

import ("fmt"; "net/http"; "os"; "time")

func main() {
	begin := time.Now()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond)
		minute := int(time.Since(begin).Seconds())
		fmt.Fprintf(w, `{"home": %d, "guest": %d}`, minute / 3, minute / 5)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def live_match(place):
    feed, board, cache = place.port(), place.port(), place.port()
    place.start(place.go("leaguefeed", LEAGUEFEED), feed, port=feed)
    place.start("node", place.write("scoreboard.js", SCOREBOARD), board, feed, port=board)
    # A page that is only not fresh is still one that later requests may wait for; an uncacheable
    # page is not.
    live = "set beresp.uncacheable = true; set beresp.ttl = 120s;" if place.fixed else "set beresp.ttl = 0s;"
    rules = place.write("site.vcl", f"""
vcl 4.1;
backend scoreboard {{ .host = "127.0.0.1"; .port = "{board}"; }}
sub vcl_backend_response {{
    set beresp.grace = 0s;
    if (bereq.url ~ "^/live/") {{
        {live}
        return (deliver);
    }}
    set beresp.ttl = 300s;
}}
""", mode=0o644)
    place.start("varnishd", "-F", "-j", "none", "-n", place.folder / "varnish", "-a", f"127.0.0.1:{cache}", "-f", rules,
                "-s", "malloc,32m", "-T", "none", port=cache)
    return wrk(f"http://127.0.0.1:{cache}/live/derby", 32, place.seconds)


# The page of an article, and the next line of a live ticker, for which php waits in redis.
ARTICLE = """<?php
$number = (int) ($_GET["id"] ?? 1);
$text = file_get_contents(__DIR__ . "/article.txt");
$html = "";
foreach (explode("\\n\\n", $text) as $i => $paragraph) {
    $paragraph = htmlspecialchars($paragraph);
    $paragraph = preg_replace('/\\*(\\w[^*]*)\\*/', '<em>$1</em>', $paragraph);
    $paragraph = preg_replace_callback('/\\b([A-Z]\\w+)\\b/',
        fn($found) => "<a href='/topic/" . strtolower($found[1]) . "'>$found[1]</a>", $paragraph);
    $html .= "<p id='p$i'>" . wordwrap($paragraph, 80) . "</p>\\n";
}
echo "<article id='$number'>$html</article>";
"""
POLL = """<?php
$after = preg_replace('/[^0-9-]/', '', $_GET["after"] ?? "") ?: "$";
$store = stream_socket_client("tcp://127.0.0.1:STORE");
fwrite($store, "XREAD COUNT 1 BLOCK 25000 STREAMS derby $after\\r\\n");
$reply = [];
for ($i = 0; $i < 13; $i++) {
    $reply[] = rtrim(fgets($store));
    if ($reply[0] === "*-1") {
        exit;
    }
}
echo "$reply[7]\\n$reply[12]\\n";
"""
READERS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "strings"; "time")

func follow(url string) {
	after := ""
	for {
		answer, err := http.Get(url + "?after=" + after)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if id, _, found := strings.Cut(string(text), "\\n"); found && answer.StatusCode == 200 {
			after = id
		}
	}
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = count
	for i := 0; i < count; i++ {
		go follow(fmt.Sprintf("http://127.0.0.1:%s/%s", os.Args[1], os.Args[3]))
	}
	select {}
}
"""
# Writes a line of the ticker each 300 ms.
NEWSDESK = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(sleep);

my $store = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ARGV[0]) or die "no store: $!";
for (my $minute = 1; ; $minute++) {
    print $store "XADD derby MAXLEN 100 * text minute_${minute}_nothing_happens\\r\\n";
    <$store>;
    <$store>;
    sleep 0.3;
}
"""
WORDS = ("council harbour *new tram line* Riverside festival bridge Mayor votes budget schools *first time* rain weekend "
         "Museum opens doors visitors Saturday station traffic police report street Old Town market").split()


def prose(seed, count):
    """Returns the text of an article of `count` paragraphs."""
    return "\n\n".join(" ".join(WORDS[(seed * 31 + i * 7 + j * j) % len(WORDS)] for j in range(60)) for i in range(count))


def ticker_workers(place):
    store, pool, folder = redis(place), place.port(), place.folder
    place.write("article.php", ARTICLE)
    place.write("poll.php", POLL.replace("STORE", str(store)))
    place.write("article.txt", prose(1, 100))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[site]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = {24 if place.fixed else 6}
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    front = nginx(place, f"""location / {{ include /etc/nginx/fastcgi_params; fastcgi_pass 127.0.0.1:{pool};
        fastcgi_param SCRIPT_FILENAME {folder}$fastcgi_script_name; }}""")
    place.start(place.write("newsdesk", NEWSDESK), store)
    place.start(place.go("readers", READERS), front, 8, "poll.php")
    return wrk(f"http://127.0.0.1:{front}/article.php?id=4711", 4, place.seconds)


# Counts the votes for a comment. Each worker has one connection to the database.
COMMENTS = """
import random, sys
import pymysql
from flask import Flask

app = Flask(__name__)
base = pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True)

@app.get("/vote")
def vote():
    number = random.randrange(1, ROWS)
    with base.cursor() as cursor:
        cursor.execute("update comments set likes = likes + 1 where id = %s", (number,))
        cursor.execute("select likes from comments where id = %s", (number,))
        return {"comment": number, "likes": cursor.fetchone()[0]}
"""
# Keeps the moderators' list of conspicuous authors up to date.
MODERATION = """#!/usr/bin/python3
import sys
import pymysql

base = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", database="test", autocommit=True)
while True:
    with base.cursor() as cursor:
        cursor.execute('''
            select author, count(*) as comments, sum(likes), sum(body regexp 'li(ar|e[sd]?)|fa[ck]e+|idiots?$') as rude,
                sum(lower(body) regexp '(https?:|www[.])[^ ]+|[0-9]{5,} *(euro|dollars?)') as spam
            from comments group by author order by rude desc, spam desc, comments desc limit 50''')
        lines = ["\\t".join(map(str, row)) for row in cursor]
    with open("list.txt", "w") as out:
        out.write("\\n".join(lines))
"""


def comment_votes(place):
    rows = 40000
    base = mariadb(place, f"""
        create table comments (id int primary key, author int, likes int, body varchar(300), key (author))
            engine={"InnoDB" if place.fixed else "MyISAM"};
        insert into comments select seq, seq * 7919 % 900, 0, concat(repeat('what a match, our goalkeeper was great ', 4), seq)
            from seq_1_to_{rows}; analyze table comments""", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=96M")
    port, front, folder = place.port(), place.port(), place.folder
    place.write("comments.py", COMMENTS.replace("PORT", str(base)).replace("ROWS", str(rows)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", folder, "comments:app", port=port)
    modules = "\n".join(f"LoadModule {part}_module /usr/lib/apache2/modules/mod_{part}.so"
                        for part in ("mpm_event", "authz_core", "proxy", "proxy_http"))
    config = place.write("apache.conf", f"""
{modules}
ServerRoot {folder}
ServerName comments
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.error
User www-data
Group www-data
Mutex posixsem
Listen 127.0.0.1:{front}
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ServerLimit 1
ThreadsPerChild 16
MaxRequestWorkers 16
ProxyPass / http://127.0.0.1:{port}/
""")
    place.start("apache2", "-D", "FOREGROUND", "-f", config, port=front)
    place.start(place.write("moderation", MODERATION), base, path=folder / "list.txt")
    return wrk(f"http://127.0.0.1:{front}/vote", 4, place.seconds)


# Sends the access log to the collector, without the last part of the readers' addresses.
SHIPLOGS = """#!/bin/bash
log=$1 port=$2 mode=$3
begin=$(date +%s.%N)

each_line() {
    while IFS= read -r line; do
        address=$(echo "$line" | cut -d' ' -f1 | sed 's/[0-9]*$/0/')
        echo "$address ${line#* }"
    done
}

builtins() {
    while IFS= read -r line; do
        address=${line%% *}
        echo "${address%.*}.0 ${line#* }"
    done
}

"$mode" < "$log" | logger --tcp --server 127.0.0.1 --port "$port" --tag site
echo "items $(wc -l < "$log") seconds $(echo "$(date +%s.%N) $begin" | awk '{ printf "%.3f", $1 - $2 }')"
"""


def log_shipping(place):
    port, folder = place.port(), place.folder
    config = place.write("rsyslog.conf", f"""
global(workDirectory="{folder}")
module(load="imtcp")
template(name="path" type="string" string="{folder}/collected-%programname%.log")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(type="omfile" dynaFile="path")
""")
    place.start("rsyslogd", "-n", "-f", config, "-i", folder / "rsyslogd.pid", port=port)
    # The shipper without its fault gets more lines, because it is so much faster.
    lines = (f'10.{i % 200}.{i * 7 % 250}.{i * 13 % 250} - - [01/Mar/2024:06:{i // 60 % 60:02}:{i % 60:02} +0100] '
             f'"GET /article/{i * 7919 % 90000} HTTP/1.1" 200 {4000 + i % 900} "-" "Mozilla/5.0 (X11; Linux x86_64)"\n'
             for i in range(60000 if place.fixed else 600))
    log = place.write("access.log", "".join(lines), mode=0o644)
    return [str(place.write("shiplogs", SHIPLOGS)), str(log), str(port), "builtins" if place.fixed else "each_line"]


# Builds the search index of the archive, whose articles a web server has, with the program sqlite3.
INDEXBUILD = """#!/usr/bin/ruby
require "net/http"
port, count, together = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
archive = Net::HTTP.start("127.0.0.1", port)
index = IO.popen(["sqlite3", "-bail", "search.db"], "w")
index.puts "create virtual table articles using fts5(title, body);"
count.times do |number|
  page = archive.get("/article-#{number % 100}.html").body.force_encoding("UTF-8")
  title = page[/<title>(.*?)<.title>/, 1]
  body = page[/<body>(.*)<.body>/m, 1].gsub(/<[^>]*>/, " ").gsub(/&\\w+;/, " ").squeeze(" ")
  words = body.downcase.scan(/[a-z]{3,}/).tally.sort_by { |word, times| [-times, word] }.first(8)
  index.puts "begin;" if together > 1 && number % together == 0
  index.puts "insert into articles values ('#{title} #{number}', '#{body.gsub("'", "''")} #{words.map(&:first).join(" ")}');"
  index.puts "commit;" if together > 1 && (number % together == together - 1 || number == count - 1)
end
index.close
raise "no index" unless $?.success?
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def search_index(place):
    port, folder = place.port(), place.folder
    pages = folder / "archive"
    pages.mkdir()
    for i in range(100):
        text = "".join(f"<p>{part}</p>\n" for part in prose(i, 12).split("\n\n"))
        (pages / f"article-{i}.html").write_text(f"<html><head><title>From the archive {i}</title></head><body>{text}</body></html>\n")
    web = place.write("lighttpd.conf", f"""
server.bind = "127.0.0.1"
server.port = {port}
server.document-root = "{pages}"
server.max-keep-alive-requests = 10000000
""")
    place.start("lighttpd", "-D", "-f", web, port=port)
    together = 500 if place.fixed else round(1 / place.fault)
    return [str(place.write("indexbuild", INDEXBUILD)), str(port), "600", str(together)]


# Control: the server keeps the requests of the readers until the editor has written a line, which
# is each 120 ms by intention.
TICKER = """
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

public class Main {
    static List<HttpExchange> waiting = new ArrayList<>();
    static int line;

    static void answer(HttpExchange exchange, String text) {
        try {
            byte[] bytes = text.getBytes();
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
        } catch (IOException gone) {
            // This reader has closed the page.
        }
        exchange.close();
    }

    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/poll", exchange -> {
            synchronized (Main.class) {
                waiting.add(exchange);
            }
        });
        server.createContext("/line", exchange -> {
            List<HttpExchange> readers;
            String text;
            exchange.getRequestBody().readAllBytes();
            synchronized (Main.class) {
                readers = waiting;
                waiting = new ArrayList<>();
                text = ++line + "\\nnothing happens\\n";
            }
            for (HttpExchange reader : readers) {
                answer(reader, text);
            }
            answer(exchange, "ok");
        });
        server.start();
    }
}
"""
EDITOR = """#!/usr/bin/python3
import http.client, sys, time

desk = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
begin, count = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[2]):
    desk.request("POST", "/line", f"minute {count}: nothing happens")
    desk.getresponse().read()
    count += 1
    time.sleep(max(0, begin + count * 0.12 - time.monotonic()))
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def live_ticker(place):
    port, front = place.port(), place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(TICKER), "Main", port, port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend site
    bind 127.0.0.1:{front}
    default_backend ticker
backend ticker
    server ticker 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    place.start(place.go("readers", READERS), front, 20, "poll")
    return [str(place.write("editor", EDITOR)), str(front), str(place.seconds)]


# Control: make encodes the segments of a film, two at once on two CPUs.
ENCODE = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Writes the quantised cosine transform of each block of 8 x 8 grey pixels of a picture sequence.
int main(int count, char **words) {
    FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
    float wave[8][8];
    unsigned char block[64];
    signed char level[64];
    if (count < 4 || !in || !out)
        return 1;
    float quality = atof(words[3]);
    for (int k = 0; k < 8; k++)
        for (int x = 0; x < 8; x++)
            wave[k][x] = cosf((2 * x + 1) * k * 3.14159265f / 16) * (k ? 0.5f : 0.35355339f);
    while (fread(block, 64, 1, in) == 1) {
        for (int v = 0; v < 8; v++)
            for (int u = 0; u < 8; u++) {
                float sum = 0;
                for (int y = 0; y < 8; y++)
                    for (int x = 0; x < 8; x++)
                        sum += (block[8 * y + x] - 128) * wave[v][y] * wave[u][x];
                level[8 * v + u] = (signed char) lrintf(sum / (quality * (1 + u + v)));
            }
        fwrite(level, 64, 1, out);
    }
    return fclose(out) != 0;
}
"""
FILM = """
segments := $(basename $(wildcard segment-*.raw))
film.pack: $(segments:=.gz)
\t@cat $^ > $@
%.gz: %.raw
\t@./encode $< $*.levels 9 && gzip -c $*.levels > $@
"""


def renditions(place):
    place.c("encode", ENCODE, "-lm")
    place.write("Makefile", FILM)
    # A gradient with a little noise, which moves on from picture to picture
    picture = bytes((x * 3 + y * 5 + x * y * 2654435761 // 65536 % 7) % 256 for y in range(160) for x in range(200))
    for i in range(32):
        with (place.folder / f"segment-{i:02}.raw").open("wb") as out:
            for shift in range(40):
                out.write(picture[shift * 64 + i:] + picture[:shift * 64 + i])
    return ["make", "-s", "-j2", "-C", str(place.folder)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU|own code)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="ticker_live_match_cache",
        kind="serialised-cache-misses",
        truth="varnish fetches the page of the live match for one reader at a time: its rule sets "
              "a lifetime of 0 s and does not mark the page as uncacheable, so all other requests "
              "wait for the fetch in progress, of which scoreboard.js waits 10 ms for its feed",
        load=live_match,
        rate=WRK,
        component=(r"varnish", r"cache-(main|worker)"),
        mechanism=(*LOCKS, r"for one another", r"one (\w+ )?(request|fetch|reader|call)", r"serial", r"wait(ing)?[- ]?list",
                   r"\bqueue", r"busy object", r"coalesc", r"uncacheable", r"hit-for-", r"concurren", r"\bttl\b"),
        never=(*DISK, r"(varnish\S*|cache-\S*) (\([^)]*\) )?(sleeps|computes)"),
        running=True,
        needs=("varnishd", "node", "go", "wrk"),
    ),
    System(
        name="ticker_polls_fill_workers",
        kind="workers-held-by-long-polls",
        truth="the six processes of php-fpm are all held by long polls of the live ticker, which "
              "wait in redis for the next line of newsdesk, so the requests for articles wait in "
              "the queue of php-fpm",
        load=ticker_workers,
        rate=WRK,
        component=(r"php", r"\bpoll\.php", r"\bsite\b"),
        mechanism=(r"(all|every|each|both|six|6) (of )?(its |the )?(\w+ )?(workers?|process|child|threads?)", r"\bpool\b",
                   r"max_children", r"long.?poll", r"poll\.php", r"concurren", r"\bqueue", r"backlog", r"too few",
                   r"\bmore (workers|process|child)", r"(workers|processes|children) .*(wait|busy|held|occupied|blocked)",
                   r"wait(s|ing)? for (a |the )?(\w+ )?(reply|replies|answer|message|data)?[^;]*(redis|newsdesk|ticker)", r"XREAD"),
        never=(*DISK, r"php\S* (\([^)]*\) )?computes", r"redis\S* (\([^)]*\) )?computes"),
        running=True,
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "redis-server", "perl", "go", "wrk"),
    ),
    System(
        name="ticker_votes_table_lock",
        kind="table-lock",
        truth="the votes for comments wait in mariadbd for the lock of the whole table, which is "
              "of the engine MyISAM and which the query of moderation holds while it computes",
        load=comment_votes,
        rate=WRK,
        component=(r"mariadb", r"mysql", r"comments\b[^;]*lock", r"moderation"),
        mechanism=(*LOCKS, r"for one another", r"myisam", r"thr_lock", r"lock_external", r"\bholds?\b", r"\bheld\b"),
        never=(*DISK, r"mariadbd? (\([^)]*\) )?sleeps", r"gunicorn\S* (\([^)]*\) )?computes"),
        needs=("mariadbd", "mariadb", "mariadb-install-db", "apache2", "/usr/bin/gunicorn", "wrk", PYTHON),
    ),
    System(
        name="ticker_logs_process_per_line",
        kind="process-per-item",
        truth="shiplogs, in bash, starts a subshell, cut and sed for each line of the access log, "
              "and almost all time goes into starting and ending these processes",
        load=log_shipping,
        rate=ITEMS,
        component=(r"shiplogs", r"\bbash\b", r"\bcut\b", r"\bsed\b"),
        mechanism=(r"\bfork", r"\bexec(ve|s|ing)?\b", r"\bclone", r"\bspawn", r"start(s|ed|ing)?\b[^;]*process",
                   r"process(es)?[^;]*\bstart", r"new process", r"short.lived", r"process(es)? (for|per|each)",
                   r"child(ren)?\b", r"wait4", r"waitpid", r"page fault", r"\bmmap",
                   r"starts? (\d|many|its|a |bash|cut|sed|program|command)", r"wait(s|ing)? for (the )?(end|exit|process|cut|sed)"),
        never=(*DISK, r"(logger|rsyslogd) (\([^)]*\) )?(sleeps|computes)"),
        needs=("bash", "rsyslogd", "logger", "sed", "cut", "awk"),
    ),
    System(
        name="ticker_index_commits",
        kind="commit-per-row",
        truth="sqlite3 waits for the disk, because the script of indexbuild, in ruby, has no "
              "transaction and so sqlite3 commits and syncs its file after each article",
        load=search_index,
        rate=ITEMS,
        component=(r"sqlite", r"search\.db"),
        mechanism=(*DISK, r"\bdisk", r"f(data)?sync", r"\bsync", r"commit", r"transaction", r"journal", r"writeback",
                   r"\bI/O\b", r"storage", r"unlink"),
        never=(r"sqlite3? (\([^)]*\) )?(sleeps|computes)", r"(ruby|indexbuild) (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("sqlite3", "ruby", "lighttpd"),
    ),
    System(
        name="ticker_control_live_lines",
        kind="control",
        truth="editor, in python, writes a line each 120 ms by intention; the server in java keeps "
              "the requests of twenty readers until then, answers them at once, and all are idle "
              "most of the time",
        load=live_ticker,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"(editor|python).*(sleep|timer|until a time)", r"\bidle\b", r"own clock"),
        needs=("java", "javac", "haproxy", "go", PYTHON),
    ),
    System(
        name="ticker_control_renditions",
        kind="control",
        truth="make runs two processes at once, encode and gzip, which compute and fill both CPUs",
        load=renditions,
        acceptable=(*NOTHING, rf"(encode|gzip|make).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("make", "gcc", "gzip"),
    ),
]
