package io.tailbound.examples.elearning;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.tomcat.dbcp.dbcp2.BasicDataSource;
import org.mariadb.jdbc.Driver;

/** The database of learning objects, over a bounded number of connections with prepared statements. */
final class CourseDatabase implements AutoCloseable {
    private static final String NEAR = "SELECT id, ST_Y(location), ST_X(location),"
            + " POW(ST_Y(location) - ?, 2) + POW((ST_X(location) - ?) / ?, 2) AS squared_degrees"
            + " FROM learning_object WHERE MBRContains(ST_GeomFromText(?), location)"
            + " ORDER BY squared_degrees LIMIT ?";
    private static final String CONTENT = "SELECT body FROM learning_object"
            + " JOIN content ON content.id = learning_object.content WHERE learning_object.id = ?";
    private static final String COMPLETE = "SELECT (SELECT COUNT(*) FROM learning_object) = objects"
            + " AND (SELECT COUNT(*) FROM content) = contents FROM city";
    private static final String PRESENT = "SELECT COUNT(*) FROM city";
    private static final String ROW = "INSERT INTO response (at, request, duration_us, status)"
            + " VALUES (FROM_UNIXTIME(?), ?, ?, ?)";
    private static final int MICROSECONDS = 6;
    private static final long NS_PER_US = 1000;

    private static final Duration LONGEST_WAIT = Duration.ofSeconds(10);
    private static final Duration CHECKED_EVERY = Duration.ofSeconds(1);

    private final BasicDataSource pool = new BasicDataSource();
    private volatile boolean counted;

    /**
     * A database at its address; connections are made when they are needed.
     *
     * @throws IOException the password cannot be read
     */
    CourseDatabase(Settings settings) throws IOException {
        pool.setDriver(new Driver());
        pool.setUsername("elearning");
        pool.setPassword(Files.readString(settings.passwordFile()).strip());
        pool.setUrl("jdbc:mariadb://" + settings.database()
                + "/elearning?useServerPrepStmts=true&cachePrepStmts=false&useBulkStmts=true&connectTimeout=10000"
                + "&sslMode=disable");
        // The server prepares a statement once for each connection. The driver's own pool (3.5) forgets the statements of a
        // connection that comes back without closing them, until the server accepts no more.
        pool.setPoolPreparedStatements(true);
        // A connection that stays idle is not given up: to make a new one costs more CPU time than a request.
        pool.setMaxTotal(settings.connections());
        pool.setMaxIdle(settings.connections());
        pool.setMaxWait(LONGEST_WAIT);
        pool.setTestOnBorrow(false);
        pool.setTestWhileIdle(true);
        pool.setDurationBetweenEvictionRuns(CHECKED_EVERY);
        pool.setNumTestsPerEvictionRun(settings.connections());
        pool.setMinEvictableIdle(Duration.ofMillis(-1));
    }

    /** Objects within an area, the nearest first, at most so many. */
    List<NearObject> near(SearchArea area, int most) throws SQLException {
        Position centre = area.centre();
        try (Connection connection = pool.getConnection();
                PreparedStatement query = connection.prepareStatement(NEAR)) {
            query.setDouble(1, centre.latitude());
            query.setDouble(2, centre.longitude());
            query.setDouble(3, centre.longitudeStretch());
            query.setString(4, area.rectangle());
            query.setInt(5, most);
            List<NearObject> objects = new ArrayList<>();
            try (ResultSet rows = query.executeQuery()) {
                while (rows.next()) {
                    double distance = centre.distance(new Position(rows.getDouble(2), rows.getDouble(3)));
                    // The corners of the rectangle are farther away than its sides.
                    if (distance <= area.radiusMetres()) {
                        objects.add(new NearObject(rows.getLong(1), distance));
                    }
                }
            }
            return objects;
        }
    }

    /** The content of an object, if there is one with this identifier. */
    Optional<byte[]> content(long id) throws SQLException {
        try (Connection connection = pool.getConnection();
                PreparedStatement query = connection.prepareStatement(CONTENT)) {
            query.setLong(1, id);
            try (ResultSet rows = query.executeQuery()) {
                return rows.next() ? Optional.of(rows.getBytes(1)) : Optional.empty();
            }
        }
    }

    /** Whether the database answers and has all its data. Rows are counted once; they never become fewer. */
    boolean isComplete() throws SQLException {
        boolean complete = holds(counted ? PRESENT : COMPLETE);
        counted |= complete;
        return complete;
    }

    private boolean holds(String question) throws SQLException {
        try (Connection connection = pool.getConnection();
                PreparedStatement query = connection.prepareStatement(question);
                ResultSet rows = query.executeQuery()) {
            return rows.next() && rows.getInt(1) == 1;
        }
    }

    /** Writes rows of the table of responses, in one transaction. */
    void write(List<Response> responses) throws SQLException {
        try (Connection connection = pool.getConnection();
                PreparedStatement rows = connection.prepareStatement(ROW)) {
            connection.setAutoCommit(false);
            try {
                for (Response response : responses) {
                    rows.setBigDecimal(1, BigDecimal.valueOf(response.endUs(), MICROSECONDS));
                    rows.setString(2, response.request().label());
                    rows.setLong(3, response.durationNs() / NS_PER_US);
                    rows.setInt(4, response.status());
                    rows.addBatch();
                }
                rows.executeBatch();
                connection.commit();
            } finally {
                connection.setAutoCommit(true);
            }
        }
    }

    @Override
    public void close() throws SQLException {
        pool.close();
    }
}
