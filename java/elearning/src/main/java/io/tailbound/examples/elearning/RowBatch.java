package io.tailbound.examples.elearning;

import java.sql.SQLException;
import java.util.List;

/** Writes responses to the database, all or none. */
@FunctionalInterface
interface RowBatch {
    void write(List<Response> responses) throws SQLException;
}
