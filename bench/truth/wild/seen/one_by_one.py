"""N+1: one query for each row of a first query."""
from services import at, postgres, redis
from system import ITEMS, PYTHON, System

ORDERS = """
import psycopg2, sys, time

port, joined, seconds = sys.argv[1], sys.argv[2] == "joined", float(sys.argv[3])
store = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
cursor = store.cursor()
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    if joined:
        cursor.execute("select o.id, c.name from orders o join customer c on c.id = o.customer where o.day = 7")
        rows = cursor.fetchall()
    else:
        cursor.execute("select id, customer from orders where day = 7")
        rows = []
        for order, customer in cursor.fetchall():
            cursor.execute("select name from customer where id = %s", (customer,))
            rows.append((order, cursor.fetchone()[0]))
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# One page has 100 products.
PAGES = """
const net = require("net");
const [port, pages, together] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4] === "mget"];
const store = net.connect({ port, host: "127.0.0.1", noDelay: true });
const keys = Array.from({ length: 100 }, (_, i) => "product" + i);
const asked = (words) => "*" + words.length + "\\r\\n" + words.map((word) => "$" + word.length + "\\r\\n" + word + "\\r\\n").join("");
const ask = (words, replies) => new Promise((done) => {
  let seen = 0;
  store.on("data", function take(data) {
    for (const byte of data) seen += byte === 36;
    if (seen >= replies) { store.off("data", take); done(); }
  });
  store.write(asked(words));
});
store.on("connect", async () => {
  const begin = process.hrtime.bigint();
  for (let page = 0; page < pages; page++) {
    if (together) await ask(["MGET", ...keys], 100);
    else for (const key of keys) await ask(["GET", key], 1);
  }
  console.log(`items ${pages} seconds ${Number(process.hrtime.bigint() - begin) / 1e9}`);
  store.end();
});
"""


def orders(place):
    port = postgres(place, "create table customer (id int primary key, name text); insert into customer select i, 'customer ' || i from generate_series(1, 1000) i;"
                    "create table orders (id int primary key, day int, customer int); insert into orders select i, i % 20, i % 1000 + 1 from generate_series(1, 4000) i; create index on orders (day); analyze")
    return [PYTHON, str(place.write("orders.py", ORDERS)), str(port), "joined" if place.fixed else "apart", str(place.seconds)]


def pages(place):
    port = redis(place)
    place.run("redis-cli", "-p", port, "mset", *[word for i in range(100) for word in (f"product{i}", "x" * 50)])
    return ["node", str(place.write("pages.js", PAGES)), str(port), *(["8000", "mget"] if place.fixed else ["400", "get"])]


MECHANISM = (r"one after the other", r"per item", r"once per", r"round.?trip", r"quer(y|ies)", r"each (call|request)", r"batch", r"its calls", r"in transit", r"there and back")
SYSTEMS = [
    System(
        name="postgres_n_plus_1",
        kind="n-plus-1",
        truth="the Python client asks postgres once for each of 200 orders",
        load=orders,
        rate=ITEMS,
        component=(r"python", r"orders\.py", r"postgres"),
        mechanism=MECHANISM,
        needs=(PYTHON, "psql"),
    ),
    System(
        name="redis_n_plus_1_work",
        kind="n-plus-1",
        truth="the node client asks redis once for each of the 100 products of a page",
        load=pages,
        rate=ITEMS,
        component=(r"node", r"redis"),
        mechanism=MECHANISM,
        needs=("node", "redis-server", "redis-cli"),
    ),
]
