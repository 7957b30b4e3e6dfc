package io.tailbound.examples.elearning;

/**
 * A position on the globe.
 *
 * @param latitude degrees to the north
 * @param longitude degrees to the east
 */
record Position(double latitude, double longitude) {
    /** Metres of a degree of latitude, and of a degree of longitude at the equator. */
    static final double METRES_PER_DEGREE = 111_195;

    /** Degrees of longitude that are as long here as one degree of latitude is. */
    double longitudeStretch() {
        return 1 / Math.cos(Math.toRadians(latitude));
    }

    /** The distance in metres, as on a plane: exact to a thousandth within a few kilometres. */
    double distance(Position other) {
        double north = other.latitude - latitude;
        double east = (other.longitude - longitude) / longitudeStretch();
        return Math.hypot(north, east) * METRES_PER_DEGREE;
    }
}
