package io.tailbound.examples.elearning;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class SearchAreaTest {
    @Test
    void theRectangleIsClosedAndHasTheRadiusOnEverySide() {
        SearchArea area = new SearchArea(new Position(60, 10), 111.195);
        assertEquals(
                "POLYGON((9.9980000 59.9990000,10.0020000 59.9990000,10.0020000 60.0010000,"
                        + "9.9980000 60.0010000,9.9980000 59.9990000))",
                area.rectangle());
    }

    @Test
    void everythingWithinTheRadiusLiesInTheRectangle() {
        SearchArea area = new SearchArea(new Position(45.45, 9.15), 150);
        String[] corners = area.rectangle().replaceAll("[^-0-9., ]", "").split(",");
        String[] least = corners[0].split(" ");
        String[] most = corners[2].split(" ");
        for (int degrees = 0; degrees < 360; degrees++) {
            double north = 149.9 / Position.METRES_PER_DEGREE * Math.sin(Math.toRadians(degrees));
            double east = 149.9 / Position.METRES_PER_DEGREE * Math.cos(Math.toRadians(degrees));
            Position there = new Position(45.45 + north, 9.15 + east * area.centre().longitudeStretch());
            assertEquals(149.9, area.centre().distance(there), 1e-6);
            assertTrue(there.longitude() > Double.parseDouble(least[0]) && there.longitude() < Double.parseDouble(most[0]));
            assertTrue(there.latitude() > Double.parseDouble(least[1]) && there.latitude() < Double.parseDouble(most[1]));
        }
    }

    @Test
    void objectsAreWrittenInTheirOrder() {
        assertEquals("{\"objects\":[]}\n", NearObject.json(List.of()));
        assertEquals(
                "{\"objects\":[{\"id\":7,\"distance_m\":0.5},{\"id\":3,\"distance_m\":12.0}]}\n",
                NearObject.json(List.of(new NearObject(7, 0.46), new NearObject(3, 12))));
    }
}
