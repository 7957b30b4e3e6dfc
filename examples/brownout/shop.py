"""A shop that leaves out recommendations under overload.

A page has a product with its reviews, which is mandatory, and what others bought with it, which is optional
and takes most of the CPU time. The catalogue and the baskets of the past are in a file of SQLite.

    python3 shop.py shop.db
    gunicorn --worker-class gthread --threads 32 'shop:application("shop.db", deadline="500ms")'
"""

from __future__ import annotations

import argparse
import importlib
import random
import sqlite3
import sys
import threading
from html import escape
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

SCHEMA = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, cents INTEGER, description TEXT);
CREATE TABLE reviews (product INTEGER, stars INTEGER, text TEXT);
CREATE TABLE baskets (basket INTEGER, product INTEGER);
"""
INDEXES = """
CREATE INDEX reviews_by_product ON reviews (product);
CREATE INDEX baskets_by_product ON baskets (product, basket);
CREATE INDEX baskets_by_basket ON baskets (basket, product);
CREATE TABLE sales AS SELECT product, COUNT(*) AS number FROM baskets GROUP BY product;
CREATE UNIQUE INDEX sales_by_product ON sales (product);
"""
# The cosine of two products, as vectors over baskets.
RECOMMENDATIONS = """
SELECT products.id, products.name,
    COUNT(*) / SQRT(mine.number * theirs.number) AS likeness
FROM baskets AS bought
JOIN baskets AS beside ON beside.basket = bought.basket AND beside.product <> bought.product
JOIN sales AS mine ON mine.product = bought.product
JOIN sales AS theirs ON theirs.product = beside.product
JOIN products ON products.id = beside.product
WHERE bought.product = ?
GROUP BY beside.product ORDER BY likeness DESC, products.id LIMIT 5
"""
NOUNS = "lamp chair kettle bicycle tent radio clock desk mirror rug".split()
ADJECTIVES = "red small sturdy light quiet folding warm plain bright old".split()


def fill(path: str, products: int, baskets: int, seed: int) -> None:
    """Writes a catalogue: few products are in many baskets, and most in few."""
    numbers = random.Random(seed)
    with sqlite3.connect(path) as database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", _products(products, numbers))
        database.executemany("INSERT INTO reviews VALUES (?, ?, ?)", _reviews(products, numbers))
        database.executemany("INSERT INTO baskets VALUES (?, ?)", _baskets(products, baskets, numbers))
        database.executescript(INDEXES)
    database.close()


def _products(products: int, numbers: random.Random) -> Iterable[Tuple[int, str, int, str]]:
    for number in range(1, products + 1):
        adjective, noun = numbers.choice(ADJECTIVES), numbers.choice(NOUNS)
        name = f"{adjective} {noun} {number}"
        yield number, name, numbers.randrange(500, 50_000), f"A {adjective} {noun} & more. " * 8


def _reviews(products: int, numbers: random.Random) -> Iterable[Tuple[int, int, str]]:
    for number in range(1, products + 1):
        for _ in range(numbers.randrange(12)):
            stars = numbers.randint(1, 5)
            yield number, stars, f"{'Good' if stars > 2 else 'Bad'}, said visitor <{numbers.randrange(10**6)}>."


def _baskets(products: int, baskets: int, numbers: random.Random) -> Iterable[Tuple[int, int]]:
    for basket in range(baskets):
        for product in {popular(products, numbers) for _ in range(numbers.randint(2, 8))}:
            yield basket, product


def popular(products: int, numbers: random.Random) -> int:
    """A product as visitors choose it: the first tenth has a fifth of the sales."""
    return 1 + int(products * numbers.random() ** 1.5)


class Shop:
    """The pages, without a middleware."""

    def __init__(self, path: str) -> None:
        if not Path(path).is_file():
            raise ValueError(f"there is no catalogue {path!r}; write one by: python3 shop.py {path}")
        self._path = path
        self._own = threading.local()

    def __call__(self, environ: Dict[str, Any], start_response: Any) -> List[bytes]:
        page = self._page(environ["PATH_INFO"], environ.get("tailbound.optional", True))
        status = "404 Not Found" if page is None else "200 OK"
        body = ("<h1>There is no such page</h1>" if page is None else page).encode()
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    def _database(self) -> sqlite3.Connection:
        """The connection of this thread."""
        if not hasattr(self._own, "database"):
            self._own.database = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
        database: sqlite3.Connection = self._own.database
        return database

    def _page(self, path: str, optional: bool) -> Optional[str]:
        if path == "/":
            return self._overview()
        number = path[len("/product/") :] if path.startswith("/product/") else ""
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            return None
        return self._product(int(number), optional)

    def _overview(self) -> str:
        rows = self._database().execute(
            "SELECT id, name FROM products JOIN sales ON product = id ORDER BY sales.number DESC LIMIT 20"
        )
        links = "".join(f'<li><a href="/product/{number}">{escape(name)}</a>' for number, name in rows)
        return f"<h1>What others buy</h1><ul>{links}</ul>"

    def _product(self, number: int, optional: bool) -> Optional[str]:
        database = self._database()
        row = database.execute("SELECT * FROM products WHERE id = ?", (number,)).fetchone()
        if row is None:
            return None
        _, name, cents, description = row
        reviews = "".join(
            f"<li>{'*' * stars} {escape(text)}"
            for stars, text in database.execute(
                "SELECT stars, text FROM reviews WHERE product = ?", (number,)
            )
        )
        page = f"<h1>{escape(name)}</h1><p>{cents / 100:.2f}<p>{escape(description)}<ul>{reviews}</ul>"
        return page + self._recommendations(number) if optional else page

    def _recommendations(self, number: int) -> str:
        rows = self._database().execute(RECOMMENDATIONS, (number,))
        links = "".join(f'<li><a href="/product/{other}">{escape(name)}</a>' for other, name, _ in rows)
        return f"<h2>Others also bought</h2><ul>{links}</ul>"


def application(path: str, start_header: Optional[str] = None, **settings: Any) -> Any:
    """The shop with its service level, for a server of WSGI. The settings are those of ``ServiceLevel``; a
    proxy says in ``start_header`` when it got a request."""
    try:
        from tailbound import service_level
    except ImportError:
        # In a clone without the built package, the folder of the module serves by itself.
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tailbound"))
        service_level = importlib.import_module("service_level")
    level = service_level.ServiceLevel(**settings)
    return service_level.WsgiMiddleware(Shop(path), level, start_header=start_header)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the catalogue of a shop.")
    parser.add_argument("path", help="the file to write")
    parser.add_argument("--products", type=int, default=2_000)
    parser.add_argument("--baskets", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.products < 10 or given.baskets < 1:
        parser.error("a shop has at least 10 products and one basket")
    if Path(given.path).exists():
        parser.error(f"{given.path} is there already; remove it, or name another file")
    fill(given.path, given.products, given.baskets, given.seed)


if __name__ == "__main__":
    main()
