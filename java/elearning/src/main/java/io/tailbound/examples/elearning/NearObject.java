package io.tailbound.examples.elearning;

import java.util.List;
import java.util.Locale;

/**
 * A learning object near a position.
 *
 * @param id its identifier
 * @param distanceMetres its distance to the position
 */
record NearObject(long id, double distanceMetres) {
    /** Objects as JSON, in their order. */
    static String json(List<NearObject> objects) {
        StringBuilder out = new StringBuilder("{\"objects\":[");
        for (int i = 0; i < objects.size(); i++) {
            NearObject object = objects.get(i);
            out.append(i == 0 ? "" : ",").append("{\"id\":").append(object.id).append(",\"distance_m\":")
                    .append(String.format(Locale.ROOT, "%.1f", object.distanceMetres)).append('}');
        }
        return out.append("]}\n").toString();
    }
}
