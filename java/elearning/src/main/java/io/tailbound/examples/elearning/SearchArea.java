package io.tailbound.examples.elearning;

import java.util.Locale;

/**
 * The surroundings of a position.
 *
 * @param centre the position
 * @param radiusMetres the distance up to which something lies in the area
 */
record SearchArea(Position centre, double radiusMetres) {
    /** Latitudes beyond have no surroundings that look like a rectangle. */
    static final double MOST_LATITUDE = 85;

    /** The rectangle around the area as well-known text, which the spatial index answers for. */
    String rectangle() {
        double north = radiusMetres / Position.METRES_PER_DEGREE;
        double east = north * centre.longitudeStretch();
        double west = centre.longitude() - east;
        double south = centre.latitude() - north;
        east += centre.longitude();
        north += centre.latitude();
        return String.format(
                Locale.ROOT, "POLYGON((%1$.7f %2$.7f,%3$.7f %2$.7f,%3$.7f %4$.7f,%1$.7f %4$.7f,%1$.7f %2$.7f))",
                west, south, east, north);
    }
}
