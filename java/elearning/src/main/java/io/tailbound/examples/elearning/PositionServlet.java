package io.tailbound.examples.elearning;

import java.sql.SQLException;
import java.util.List;

/** The learning objects near a position, the nearest first. */
public final class PositionServlet extends QueryServlet {
    private static final int USUAL_RADIUS_METRES = 150;
    private static final int MOST_RADIUS_METRES = 2000;
    private static final int USUAL_COUNT = 10;
    private static final int MOST_COUNT = 50;
    private static final int MOST_LONGITUDE = 180;

    public PositionServlet() {
        super(List.of("lat", "lon", "radius_m", "count"));
    }

    @Override
    Body answer(Application application, Parameters parameters) throws BadParameter, SQLException {
        double latitude = parameters.decimal("lat", -SearchArea.MOST_LATITUDE, SearchArea.MOST_LATITUDE);
        double longitude = parameters.decimal("lon", -MOST_LONGITUDE, MOST_LONGITUDE);
        double radius = parameters.decimal("radius_m", 1, MOST_RADIUS_METRES, USUAL_RADIUS_METRES);
        int count = (int) parameters.whole("count", 1, MOST_COUNT, USUAL_COUNT);
        SearchArea area = new SearchArea(new Position(latitude, longitude), radius);
        return Body.json(NearObject.json(application.database().near(area, count)));
    }
}
