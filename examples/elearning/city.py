"""The city of the e-learning application: learning objects, their contents, and users who walk.

Everything is drawn from one seed. A third of the objects lies anywhere, the others around points of interest of
which some have many and most have few. Contents have sizes of a heavy-tailed law; several objects share one.

Usage: city.py data FOLDER    writes the tables as files that MariaDB loads, and load.sql
       city.py walks          prints the walks, a CSV: examples/elearning/walks.csv
"""

import bisect
import hashlib
import math
import pathlib
import random
import sys

SEED = 20100411
OBJECTS = 120_000
CONTENTS = 2_000
POINTS_OF_INTEREST = 400
SCATTERED_SHARE = 0.3
# The k-th point of interest has 1 / k**POPULARITY times the objects of the first.
POPULARITY = 0.8
SPREAD_M = (60.0, 400.0)

SOUTH, NORTH = 45.4, 45.5
WEST, EAST = 9.1, 9.2
METRES_PER_DEGREE = 111_195.0
STRETCH = 1 / math.cos(math.radians((SOUTH + NORTH) / 2))
DECIMALS = 6

LEAST_BYTES, MOST_BYTES = 2 * 1024, 512 * 1024
TAIL_INDEX = 1.2

WALKS = 50
STEPS = 24
STEP_M = 40.0
NEXT_GOAL_M = 1_500.0

WORDS = (
    "arch bridge canal church court column city duke engine facade garden guild harbour house king library "
    "market master mosaic mill night palace painter river road roof school square stone tower wall water"
).split()


class City:
    """Learning objects as (latitude, longitude) by identifier, with the content of each."""

    def __init__(self, seed: int = SEED, objects: int = OBJECTS, contents: int = CONTENTS) -> None:
        # Only random() has the same values in all versions of Python; every other law is made of it.
        self.draw = random.Random(seed).random
        self.points = [self.anywhere() for _ in range(POINTS_OF_INTEREST)]
        self.spreads = [self.log_uniform(*SPREAD_M) for _ in self.points]
        self.thresholds = thresholds(POINTS_OF_INTEREST)
        self.positions = [self.object_position() for _ in range(objects)]
        self.content_of = [int(self.draw() * contents) for _ in range(objects)]
        self.sizes = [self.content_size() for _ in range(contents)]

    def anywhere(self) -> tuple[float, float]:
        return SOUTH + (NORTH - SOUTH) * self.draw(), WEST + (EAST - WEST) * self.draw()

    def log_uniform(self, least: float, most: float) -> float:
        return least * (most / least) ** self.draw()

    def point_of_interest(self) -> int:
        return bisect.bisect_left(self.thresholds, self.draw())

    def object_position(self) -> tuple[float, float]:
        if self.draw() < SCATTERED_SHARE:
            return rounded(self.anywhere())
        point = self.point_of_interest()
        while True:
            radius_m = self.spreads[point] * math.sqrt(-2 * math.log(1 - self.draw()))
            place = rounded(moved(self.points[point], radius_m, 2 * math.pi * self.draw()))
            if SOUTH <= place[0] < NORTH and WEST <= place[1] < EAST:
                return place

    def content_size(self) -> int:
        """A size of a Pareto law that is cut off at MOST_BYTES."""
        cut = 1 - (LEAST_BYTES / MOST_BYTES) ** TAIL_INDEX
        return int(LEAST_BYTES * (1 - self.draw() * cut) ** (-1 / TAIL_INDEX))

    def walk(self, nearest: "Nearest") -> list[tuple[float, float, int]]:
        """Positions of a user on the way from one point of interest to the next ones, each with the nearest object."""
        here = self.points[self.point_of_interest()]
        goal = self.next_goal(here)
        steps = []
        for _ in range(STEPS):
            place = rounded(here)
            steps.append((*place, nearest.to(place)))
            distance_m, direction = course(here, goal)
            if distance_m < STEP_M:
                goal = self.next_goal(here)
            step_m = STEP_M * (0.5 + self.draw())
            here = inside(moved(here, step_m, direction + (self.draw() - 0.5)))
        return steps

    def next_goal(self, here: tuple[float, float]) -> tuple[float, float]:
        """Another point of interest: the first within reach of some that are drawn, or the last of them."""
        for _ in range(100):
            goal = self.points[self.point_of_interest()]
            if 2 * STEP_M < course(here, goal)[0] < NEXT_GOAL_M:
                break
        return goal


class Nearest:
    """The object that is nearest to a position, by a grid of cells that are as wide as the radius of a search."""

    CELL_DEGREES = 0.002

    def __init__(self, positions: list[tuple[float, float]]) -> None:
        self.positions = positions
        self.cells: dict[tuple[int, int], list[int]] = {}
        for number, position in enumerate(positions):
            self.cells.setdefault(self.cell(position), []).append(number)

    def cell(self, position: tuple[float, float]) -> tuple[int, int]:
        return int(position[0] / self.CELL_DEGREES), int(position[1] / self.CELL_DEGREES)

    def to(self, position: tuple[float, float]) -> int:
        row, column = self.cell(position)
        for reach in range(1, 50):
            rows, columns = range(row - reach, row + reach + 1), range(column - reach, column + reach + 1)
            near = [one for r in rows for c in columns for one in self.cells.get((r, c), ())]
            if near:
                return min(near, key=lambda one: course(position, self.positions[one])[0])
        raise ValueError(f"there is no learning object near {position}")


def thresholds(points: int) -> list[float]:
    """The distribution function of the points of interest by their popularity."""
    weights = [1 / (k + 1) ** POPULARITY for k in range(points)]
    total, below, sums = sum(weights), 0.0, []
    for weight in weights:
        below += weight
        sums.append(below / total)
    sums[-1] = 1.0
    return sums


def moved(place: tuple[float, float], distance_m: float, direction: float) -> tuple[float, float]:
    degrees = distance_m / METRES_PER_DEGREE
    return place[0] + degrees * math.sin(direction), place[1] + degrees * math.cos(direction) * STRETCH


def course(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    """Distance in metres and direction."""
    north, east = end[0] - start[0], (end[1] - start[1]) / STRETCH
    return math.hypot(north, east) * METRES_PER_DEGREE, math.atan2(north, east)


def rounded(place: tuple[float, float]) -> tuple[float, float]:
    return round(place[0], DECIMALS), round(place[1], DECIMALS)


def inside(place: tuple[float, float]) -> tuple[float, float]:
    margin = 0.001
    latitude = min(max(place[0], SOUTH + margin), NORTH - margin)
    return latitude, min(max(place[1], WEST + margin), EAST - margin)


def version() -> str:
    """The version of the data: a hash of all that they depend on."""
    return hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()


def prose(city: City) -> str:
    """As much text as the longest content, twice; contents are parts of it."""
    words, length = [], 0
    while length < 2 * MOST_BYTES:
        words.append(WORDS[int(city.draw() * len(WORDS))])
        length += len(words[-1]) + 1
    return " ".join(words)


SCHEMA = """\
CREATE DATABASE elearning CHARACTER SET latin1;
USE elearning;
CREATE TABLE learning_object (id INT UNSIGNED NOT NULL PRIMARY KEY, title VARCHAR(80) NOT NULL, \
location POINT NOT NULL, content INT UNSIGNED NOT NULL) ENGINE=InnoDB;
CREATE TABLE content (id INT UNSIGNED NOT NULL PRIMARY KEY, body MEDIUMBLOB NOT NULL) ENGINE=InnoDB;
CREATE TABLE city (version CHAR(64) NOT NULL, objects INT UNSIGNED NOT NULL, contents INT UNSIGNED NOT NULL) \
ENGINE=InnoDB;
CREATE TABLE response (at TIMESTAMP(6) NOT NULL, request VARCHAR(16) NOT NULL, duration_us INT UNSIGNED NOT NULL, \
status SMALLINT UNSIGNED NOT NULL, KEY (at)) ENGINE=InnoDB;
LOAD DATA INFILE '{folder}/contents.tsv' INTO TABLE content (id, body);
LOAD DATA INFILE '{folder}/objects.tsv' INTO TABLE learning_object (id, title, @lat, @lon, content) \
SET location = POINT(@lon, @lat);
ALTER TABLE learning_object ADD SPATIAL INDEX (location);
INSERT INTO city VALUES ('{version}', {objects}, {contents});
"""


def write_data(folder: pathlib.Path) -> None:
    city = City()
    with (folder / "objects.tsv").open("w", encoding="ascii") as out:
        for number, (place, content) in enumerate(zip(city.positions, city.content_of)):
            title = f"{WORDS[number % len(WORDS)]} {number}"
            out.write(f"{number}\t{title}\t{place[0]:.6f}\t{place[1]:.6f}\t{content}\n")
    text = prose(city)
    with (folder / "contents.tsv").open("w", encoding="ascii") as out:
        for number, size in enumerate(city.sizes):
            begin = int(city.draw() * (len(text) - size))
            out.write(f"{number}\t{text[begin:begin + size]}\n")
    sizes = {"objects": len(city.positions), "contents": len(city.sizes)}
    (folder / "load.sql").write_text(SCHEMA.format(folder=folder, version=version(), **sizes), encoding="ascii")


def print_walks() -> None:
    city = City()
    nearest = Nearest(city.positions)
    print("session,step,lat,lon,id")
    for walk in range(WALKS):
        for step, (latitude, longitude, number) in enumerate(city.walk(nearest)):
            print(f"{walk},{step},{latitude:.6f},{longitude:.6f},{number}")


def main(arguments: list[str]) -> None:
    if len(arguments) == 2 and arguments[0] == "data":
        write_data(pathlib.Path(arguments[1]).resolve())
    elif arguments == ["walks"]:
        print_walks()
    elif arguments == ["version"]:
        print(version())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
